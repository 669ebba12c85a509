/* The ends of two steps, of a join that waits for both, and a clear of the first step or of the join, statement by statement as pgcron.release_steps and
 * pgcron.clear_steps do. Steps 0 and 1 are what the join, step 2, comes after. What is uncommitted is seen by nobody: others see the lock. */

#ifndef LAPSES          /* so often a run is taken from a node that goes on all the same */
#define LAPSES 0
#endif
#ifndef DEATHS          /* so many nodes end between two of their transactions */
#define DEATHS 0
#endif
#ifndef CLEARS          /* so often a step is cleared */
#define CLEARS 0
#endif

#ifndef FENCE           /* only what the fenced DELETE has removed is released */
#define FENCE 1
#endif
#ifndef WITH_END        /* the release is in the transaction of the end */
#define WITH_END 1
#endif
#ifndef LOCKED_COUNT    /* an end is counted under the lock of the join's row, from what stands there then */
#define LOCKED_COUNT 1
#endif
#ifndef OUTBOX          /* what can't be locked at once is left to the outbox */
#define OUTBOX 1
#endif
#ifndef ENDS_FIRST      /* a clear waits until nothing of its steps executes */
#define ENDS_FIRST 1
#endif
#ifndef LOCK_FIRST      /* it locks its steps before it looks at what executes */
#define LOCK_FIRST 1
#endif
#ifndef FORGET          /* it removes what the outbox holds for its steps */
#define FORGET 1
#endif
#ifndef ONE_SNAPSHOT    /* it counts what is over by the snapshot by which it removes that */
#define ONE_SNAPSHOT 1
#endif
#define CLEARER 3

mtype = { waiting, running, over };
typedef Step { mtype state; bit good; byte its_run; byte locked };
typedef Run { byte id; byte token; bit claimed; bit asked; bit ending };
typedef Entry { byte id; bit good };
Step step[3];
Run live[3];            /* the living run of each step; id 0: none */
Entry end_of[3];        /* the outbox: that run of a step has ended so */
byte tell, tell_bad;    /* and the ends that the join is to be told of */
byte waits, lapses, deaths, clears, target, taken;
bit bad, clearing;

#define MUST(fine, sentence) if :: fine :: else -> printf("BROKEN: "); printf(sentence); assert(false) fi
#define IS_OPEN(s) (step[s].state != over)
#define EXECUTES(s) (live[s].id != 0)

inline begin(s) {
  MUST(!EXECUTES(s), "a step has two runs at once\n");
  MUST(s != 2 || !(IS_OPEN(0) || IS_OPEN(1)), "a join began before a step that it waits for was over\n");
  MUST(s == 2 || !EXECUTES(2), "a step executes beside one that it comes after\n");
  MUST(s != 2 || !(EXECUTES(0) || EXECUTES(1)), "a step executes beside one that it comes after\n");
  step[s].state = running; live[s].id = step[s].its_run; live[s].claimed = 0; live[s].asked = 0; taken++; live[s].token = taken;
  printf("step %d begins, as run %d\n", s, step[s].its_run) }

/* The join is told of `ends`, `less` of them bad. */
inline count(from, ends, less) {
  if
  :: step[2].state == waiting ->
       assert(from >= ends);
       waits = from - ends; bad = bad || less > 0;
       if :: waits > 0 -> skip
          :: waits == 0 && bad -> step[2].state = over; step[2].good = 0; printf("the join can't run\n")
          :: else -> begin(2) fi
  :: else -> skip
  fi }

proctype Node(byte me) {
  byte s, mine, id, left; bit recorded, told, held;
end: do
  :: atomic {
       if :: EXECUTES(0) && !live[0].claimed -> s = 0 :: EXECUTES(1) && !live[1].claimed -> s = 1 :: EXECUTES(2) && !live[2].claimed -> s = 2 fi;
       live[s].claimed = 1; mine = live[s].token; id = live[s].id; printf("node %d: begins step %d\n", me, s) };
     if
     :: atomic {                                       /* it succeeded: the fenced DELETE */
          !live[s].ending -> held = (live[s].id == id && live[s].token == mine);
          if :: held -> live[s].ending = 1 :: else fi;
          if :: held && !WITH_END -> live[s].id = 0; live[s].ending = 0 :: else fi };
        if
        :: !held && FENCE -> skip
        :: else ->
             if
             :: atomic { !WITH_END && deaths < DEATHS -> deaths++; printf("node %d: ends between two transactions\n", me) }
             :: else ->
                  atomic {                             /* the step's row, or the outbox */
                    if :: step[s].locked == 0 && step[s].its_run == id && step[s].state == running -> step[s].locked = me; recorded = 1
                       :: else -> recorded = 0 fi };
                  atomic {                             /* the join's row, or the outbox */
                    if :: recorded && s != 2 && LOCKED_COUNT && step[2].locked == 0 -> step[2].locked = me; told = 1
                       :: recorded && s != 2 && !LOCKED_COUNT -> told = 1; left = waits
                       :: else -> told = 0 fi };
                  atomic {                             /* commit */
                    if :: held -> live[s].id = 0; live[s].ending = 0 :: else fi;
                    if :: recorded -> step[s].state = over; step[s].good = 1; step[s].locked = 0; printf("node %d: step %d is over\n", me, s)
                       :: !recorded && OUTBOX && step[s].its_run == id && step[s].state == running -> end_of[s].id = id; end_of[s].good = 1
                       :: else fi;
                    if :: told && LOCKED_COUNT -> step[2].locked = 0; left = waits :: else fi;
                    if :: told -> count(left, 1, 0)
                       :: !told && recorded && s != 2 && OUTBOX -> tell++; printf("node %d: the join is told later\n", me)
                       :: else fi }
             fi
        fi
     :: atomic {                                       /* it stopped, as it was asked to */
          live[s].asked && live[s].id == id && live[s].token == mine && !live[s].ending ->
            live[s].id = 0; end_of[s].id = id; end_of[s].good = 0; printf("node %d: step %d was cancelled\n", me, s) }
     fi;
     atomic { s = 0; mine = 0; id = 0; left = 0; recorded = 0; told = 0; held = 0 }
  od }

#define IS_BELOW(s) (s == 2 || s == target)
#define UNLOCK(s) if :: step[s].locked == CLEARER -> step[s].locked = 0 :: else fi

inline lock_below() {
  if :: atomic { target == 0 && step[0].locked == 0 -> step[0].locked = CLEARER } :: target != 0 fi;
  atomic { step[2].locked == 0 -> step[2].locked = CLEARER } }

/* What waits for a node is ended, what executes is asked to stop. */
inline stop(s) {
  if :: IS_BELOW(s) && EXECUTES(s) && !live[s].claimed -> end_of[s].id = live[s].id; end_of[s].good = 0; live[s].id = 0
     :: IS_BELOW(s) && EXECUTES(s) && live[s].claimed && !live[s].ending -> live[s].asked = 1
     :: else fi }

inline forget(s) { if :: FORGET && IS_BELOW(s) -> end_of[s].id = 0; if :: s == 2 -> tell = 0; tell_bad = 0 :: else fi :: else fi }

/* What is over of what the join comes after, and is not cleared. */
inline look() {
  others = !IS_OPEN(1) + (target == 2 && !IS_OPEN(0)); worse = (!IS_OPEN(1) && !step[1].good) + (target == 2 && !IS_OPEN(0) && !step[0].good) }

inline again(s) { step[s].its_run++; step[s].state = waiting; step[s].good = 0; step[s].locked = 0 }

/* An end that the outbox holds; an older run's counts no more. */
inline settle(s) {
  if
  :: step[s].its_run == end_of[s].id && step[s].state == running ->
       step[s].state = over; step[s].good = end_of[s].good; printf("the outbox: step %d is over\n", s);
       if :: s != 2 && step[2].locked == 0 -> count(waits, 1, !step[s].good)
          :: s != 2 && step[2].locked != 0 -> tell++; tell_bad = tell_bad + !step[s].good
          :: else fi
  :: else -> skip
  fi;
  end_of[s].id = 0; end_of[s].good = 0 }

/* Any node, under the lock of the workflow's row: one at a time. */
proctype Advance() {
  bit alive; byte others, worse;
end: do
  :: atomic { end_of[0].id != 0 && step[0].locked == 0 -> settle(0) }
  :: atomic { end_of[1].id != 0 && step[1].locked == 0 -> settle(1) }
  :: atomic { end_of[2].id != 0 && step[2].locked == 0 -> settle(2) }
  :: atomic { tell > 0 && step[2].locked == 0 -> count(waits, tell, tell_bad); tell = 0; tell_bad = 0 }
  :: clearing ->
       if :: LOCK_FIRST -> lock_below() :: else fi;
       atomic { if :: ENDS_FIRST -> stop(0); stop(2) :: else fi;
         alive = ENDS_FIRST && ((target == 0 && EXECUTES(0)) || EXECUTES(2));
         if :: alive && LOCK_FIRST -> UNLOCK(0); UNLOCK(2) :: else fi };
       if
       :: alive -> skip                                /* looked at again */
       :: else ->
            if :: !LOCK_FIRST -> lock_below() :: else fi;
            if :: ONE_SNAPSHOT -> atomic { forget(0); forget(2); look() } :: else -> atomic { forget(0); forget(2) }; atomic { look() } fi;
            atomic {                                   /* commit */
              printf("step %d is cleared\n", target); again(2); waits = 2 - others; bad = worse > 0;
              if :: target == 0 -> again(0); begin(0) :: else fi;
              if :: waits == 0 && bad -> step[2].state = over :: waits == 0 && !bad -> begin(2) :: else fi;
              clearing = 0; others = 0; worse = 0 }
       fi
  od }

proctype Others() {
end: do
  :: atomic { lapses < LAPSES && live[0].claimed && EXECUTES(0) && !live[0].ending -> lapses++; live[0].claimed = 0; taken++; live[0].token = taken; printf("step 0 is taken from its node\n") }
  :: atomic { clears < CLEARS && !clearing -> clears++; clearing = 1; if :: target = 0 :: target = 2 fi; printf("step %d is to be cleared\n", target) }
  od }

proctype Quiet() { timeout; MUST(!(IS_OPEN(0) || IS_OPEN(1) || IS_OPEN(2)), "nothing more can happen, and a step is not over\n") }

init { atomic { waits = 2; step[0].its_run = 1; step[1].its_run = 1; step[2].its_run = 1; step[2].state = waiting; begin(0); begin(1);
  run Node(1); run Node(2); run Advance(); run Others(); run Quiet() } }
