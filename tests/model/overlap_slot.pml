/* A schedule, decided statement by statement, as pgcron.admit_overlap does: lock, choose, give the slot (here the run starts with it), skip, commit. run.pml takes this for one
 * step; here is why it may. Run 1 has the better priority and may become due later, so two decisions can have different heads. */

#ifndef ADVISORY        /* a schedule is decided under its lock */
#define ADVISORY 1
#endif
#ifndef FRESH           /* holders are read by a statement that begins after the lock was had */
#define FRESH 1
#endif
#ifndef KEEP_SLOT       /* a run that waits for its retry keeps its schedule */
#define KEEP_SLOT 1
#endif
#define ATTEMPTS 2

mtype = { ready, running, succeeded, dead, cancelled, skipped, claim, finish, fail, release, cancel, pass_over };
typedef Row { mtype state; bit due; bit slot; byte attempt; byte locked };
Row row[2];
byte schedule_lock, ended[2], gifts;

#define MUST(fine, sentence) if :: fine :: else -> printf("BROKEN: "); printf(sentence); assert(false) fi
#define MOVE(r, from, to, why) assert(row[r].state == from); printf("run %d: %e -> %e (%e)\n", r, from, to, why); row[r].state = to
#define END(r, from, to, why) assert(row[r].state == from); printf("run %d: %e -> %e (%e)\n", r, from, to, why); row[r].state = 0; row[r].slot = 0; row[r].due = 0; ended[r]++; MUST(ended[r] == 1, "a run ended twice\n")

#define WAITS(r) (row[r].state == ready && row[r].due)
#define IS_HELD (row[0].slot || row[1].slot)
/* The head: who waits for a retry, then by priority. One more than the run; 0: nothing can be claimed. */
#define HEAD (WAITS(1) && row[1].slot -> 2 : (WAITS(0) && row[0].slot -> 1 : (IS_HELD -> 0 : (WAITS(1) -> 2 : (WAITS(0) -> 1 : 0)))))

proctype Dispatcher(byte me) {
  byte head, r; bit others[2];
end: do
  :: atomic { (WAITS(0) || WAITS(1)) && (HEAD != 0 || (WAITS(0) && !row[0].slot) || (WAITS(1) && !row[1].slot)) -> 
       if :: FRESH -> skip :: else -> head = HEAD fi };     /* the wrong order: the snapshot is older than the lock */
     if :: atomic { !ADVISORY || schedule_lock == 0 -> if :: ADVISORY -> schedule_lock = me :: else fi };
           atomic { if :: FRESH -> head = HEAD :: else fi; printf("dispatcher %d: its head is run %d\n", me, head - 1) };
           /* The rows are locked and looked at again; SKIP LOCKED. */
           atomic { if :: head != 0 && WAITS(head - 1) && row[head - 1].locked == 0 -> row[head - 1].locked = me :: else -> head = 0 fi };
           /* What else is due is skipped if the schedule is held, by the run just claimed or by another. */
           atomic { for (r : 0 .. 1) {
               if :: WAITS(r) && !row[r].slot && row[r].locked == 0 && (head != 0 || IS_HELD) -> row[r].locked = me; others[r] = 1 :: else fi }
             r = 0 };
           atomic {                                         /* commit */
             if :: head != 0 -> MOVE(head - 1, ready, running, claim); row[head - 1].slot = 1; row[head - 1].attempt++; row[head - 1].locked = 0 :: else fi;
             MUST(!(row[0].slot && row[1].slot), "two runs hold one schedule: the unique index was hit\n");
             for (r : 0 .. 1) {
               if :: others[r] -> MUST(row[r].attempt == 0, "a run between two attempts was skipped\n"); END(r, ready, skipped, pass_over); row[r].locked = 0; others[r] = 0 :: else fi }
             r = 0;
             if :: ADVISORY -> schedule_lock = 0 :: else fi; head = 0 }
        :: atomic { ADVISORY && schedule_lock != 0 -> head = 0 }          /* somebody else is at it */
     fi
  od }

proctype Owner(byte r) {
end: do
  :: atomic { row[r].state == ready && !row[r].due && row[r].locked == 0 -> row[r].due = 1; printf("run %d is due\n", r) }
  :: atomic { row[r].state == running -> END(r, running, succeeded, finish) }
  :: atomic { row[r].state == running && row[r].attempt < ATTEMPTS -> MOVE(r, running, ready, fail); row[r].slot = row[r].slot && KEEP_SLOT; row[r].due = 0 }
  :: atomic { row[r].state == running && row[r].attempt == ATTEMPTS -> END(r, running, dead, fail) }
  :: atomic { row[r].state == running && gifts < 1 -> gifts++; MOVE(r, running, ready, release); row[r].attempt--; row[r].slot = row[r].slot && row[r].attempt > 0 }
  :: atomic { row[r].state == ready && row[r].locked == 0 -> END(r, ready, cancelled, cancel) }
  od }

proctype Quiet() { timeout; MUST(ended[0] == 1 && ended[1] == 1, "nothing more can happen, and a run has not ended\n") }

init { atomic { row[0].state = ready; row[1].state = ready; run Dispatcher(1); run Dispatcher(2); run Owner(0); run Owner(1); run Quiet() } }
