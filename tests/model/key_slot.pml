/* The slots and the rate of one concurrency key, as pgcron.claim_gated takes them: lock what counts starts, choose by a snapshot, lock the rows and look
 * again, count, commit. A slot stands on the row of the run that has it, and what ends an attempt, of whoever, frees it by that. */

#ifndef SLOTS           /* of the key, at first */
#define SLOTS 2
#endif
#ifndef RATE            /* so many may start in a time; 0: the key has no rate, and nothing is locked before the rows */
#define RATE 0
#endif
#ifndef DEATHS          /* node 2 ends for ever; what it has sent is executed */
#define DEATHS 0
#endif
#ifndef SHRINK          /* somebody leaves the key one slot */
#define SHRINK 0
#endif

#ifndef PLACES          /* a unique index refuses a slot that another run has */
#define PLACES 1
#endif
#ifndef COUNT           /* runs that execute are counted, too, whatever slots they have: their limit may have been another */
#define COUNT 1
#endif
#ifndef AGAIN           /* the rows that were chosen are looked at again under their locks */
#define AGAIN 1
#endif
#ifndef ON_ROW          /* a slot is a column of its run; 0: a row of its own, which the node removes */
#define ON_ROW 1
#endif
#ifndef FREES           /* an attempt that ends gives the slot back, also when there is another one to come */
#define FREES 1
#endif
#ifndef RATE_LOCK       /* starts are counted by one node at a time */
#define RATE_LOCK 1
#endif
#ifndef FRESH           /* they are read by a statement that begins after the lock was had */
#define FRESH 1
#endif
#ifndef NEVER_BACK      /* a start that was counted stays counted when its run is given back */
#define NEVER_BACK 1
#endif
#define ATTEMPTS 2

mtype = { ready, running, succeeded, dead, cancelled, claim, finish, fail, release, lapse, cancel };
typedef Row { mtype state; byte slot; byte attempt; byte owner };
Row row[3];
bit gone[3], kept[3];
byte limit, counting, under_way, starts, begun, ended[3], gifts, cancels;

#define MUST(fine, sentence) if :: fine :: else -> printf("BROKEN: "); printf(sentence); assert(false) fi
#define MOVE(r, from, to, why) assert(row[r].state == from); printf("run %d: %e -> %e (%e)\n", r, from, to, why); row[r].state = to
#define END(r, from, to, why) assert(row[r].state == from); printf("run %d: %e -> %e (%e)\n", r, from, to, why); row[r].state = 0; row[r].slot = 0; ended[r]++; MUST(ended[r] == 1, "a run ended twice\n")

#define WAITS(r) (row[r].state == ready)
#define RUNNING ((row[0].state == running) + (row[1].state == running) + (row[2].state == running))
#define TAKEN(p) (ON_ROW -> (row[0].slot == p || row[1].slot == p || row[2].slot == p) : kept[p])
#define IS_LOCKED (RATE > 0 && RATE_LOCK)
#define ROOM (RATE == 0 || starts < RATE)
#define PLACE (!TAKEN(1) -> 1 : (limit > 1 && !TAKEN(2) -> 2 : 0))

proctype Node(byte me) {
  byte head, place; bit room;
end: do
  :: atomic { !gone[me] && (WAITS(0) || WAITS(1) || WAITS(2)) && PLACE != 0 && ROOM -> under_way++;
       if :: FRESH -> skip :: else -> room = ROOM fi };              /* the wrong order: the snapshot is older than the lock */
     if
     :: atomic { !IS_LOCKED || counting == 0 -> if :: IS_LOCKED -> counting = me :: else fi };
        atomic {                                                     /* one snapshot; which run comes first is another for each node */
          if :: FRESH -> room = ROOM :: else fi;
          if :: WAITS(0) -> head = 1 :: WAITS(1) -> head = 2 :: WAITS(2) -> head = 3 :: else -> head = 0 fi;
          place = PLACE;
          if :: !room || (COUNT && RUNNING >= limit) -> place = 0 :: else fi };
        atomic {                                                     /* rows are locked, and all is committed */
          if :: head != 0 && place != 0 && (!AGAIN || WAITS(head - 1)) && !(PLACES && TAKEN(place)) ->
               MUST(row[head - 1].state == ready, "a run was claimed that was claimed before\n");
               MOVE(head - 1, ready, running, claim); row[head - 1].slot = place; row[head - 1].owner = me; row[head - 1].attempt++;
               kept[place] = 1; if :: RATE > 0 -> starts++; begun++ :: else fi;
               MUST(RUNNING <= limit, "more runs of a key execute than it has slots\n");
               MUST(RATE == 0 || begun <= RATE, "more runs of a key start in a time than its rate says\n")
             :: else fi;
          if :: IS_LOCKED -> counting = 0 :: else fi; under_way--; head = 0; place = 0; room = 0 }
     :: atomic { IS_LOCKED && counting != 0 -> under_way--; room = 0 }         /* somebody else is at it */
     fi
  od }

#define GIVE_BACK(r) kept[row[r].slot] = 0; row[r].slot = 0; row[r].owner = 0

proctype Owner(byte r) {
end: do
  :: atomic { row[r].state == running && !gone[row[r].owner] -> kept[row[r].slot] = 0; END(r, running, succeeded, finish) }
  :: atomic { row[r].state == running && !gone[row[r].owner] && row[r].attempt < ATTEMPTS -> MOVE(r, running, ready, fail);
       if :: FREES -> GIVE_BACK(r) :: else fi; MUST(row[r].slot == 0, "a run that waits holds a slot of its key\n") }
  :: atomic { row[r].state == running && !gone[row[r].owner] && row[r].attempt == ATTEMPTS -> kept[row[r].slot] = 0; END(r, running, dead, fail) }
  :: atomic { row[r].state == running && !gone[row[r].owner] && gifts < 1 -> gifts++; MOVE(r, running, ready, release); GIVE_BACK(r); row[r].attempt--;
       if :: NEVER_BACK -> skip :: else -> starts = (starts > 0 -> starts - 1 : 0) fi }
  :: atomic { row[r].state == ready && cancels < 1 -> cancels++; END(r, ready, cancelled, cancel) }
  /* Any other node takes the run over: it knows of the row, and of nothing else. */
  :: atomic { row[r].state == running && gone[row[r].owner] && row[r].attempt < ATTEMPTS -> MOVE(r, running, ready, lapse); row[r].slot = 0; row[r].owner = 0 }
  :: atomic { row[r].state == running && gone[row[r].owner] && row[r].attempt == ATTEMPTS -> END(r, running, dead, lapse) }
  od }

proctype Others() {
end: do
  :: atomic { DEATHS && !gone[2] -> gone[2] = 1; printf("node 2: killed for ever\n") }
  :: atomic { SHRINK && limit > 1 && under_way == 0 -> limit = 1; printf("the key has one slot\n") }
  :: atomic { starts > 0 && RATE > 0 && under_way == 0 -> starts = 0; begun = 0; printf("the time of the rate is over\n") }
  od }

proctype Quiet() { timeout; MUST(ended[0] == 1 && ended[1] == 1 && ended[2] == 1, "nothing more can happen, and a run has not ended\n") }

init { atomic { limit = SLOTS; row[0].state = ready; row[1].state = ready; row[2].state = ready;
  run Node(1); run Node(2); run Owner(0); run Owner(1); run Owner(2); run Others(); run Quiet() } }
