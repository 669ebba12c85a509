/* From a schedule to its runs, as built: cursor with generation and watermark, ledger of occurrences, missed ranges, edits, pauses.
 *
 * Instants are 1..LAST. Two materializers read, stall as long as they like, and commit what they planned; an edit takes its locks
 * one by one; people may run a fire before its time; the clock goes on. What must hold: each fire the schedule named when its time
 * came is decided once, in the ledger or as missed, and run at most once. */

#define LAST 3
#define HORIZON 1
#ifndef EDIT            /* 0 none, 1 another timing, 2 other args, 3 pause and resume, 4 another timing, in a transaction with an old snapshot */
#define EDIT 1
#endif
#ifndef CATCHUP         /* of late fires: 0 none is run, 1 the latest */
#define CATCHUP 1
#endif
#ifndef EARLY           /* fires that somebody runs before their time (retry_run) */
#define EARLY 1
#endif

#ifndef STRICT          /* 1: also a fire that was run before its time is never told as missed */
#define STRICT 0
#endif

#ifndef CAS_WATERMARK   /* a plan commits only if the watermark is the one it was made from */
#define CAS_WATERMARK 1
#endif
#ifndef CAS_GENERATION  /* … and the generation */
#define CAS_GENERATION 1
#endif
#ifndef LEDGER          /* a fire is new only if the ledger has no row for it, whatever became of its run */
#define LEDGER 1
#endif
#ifndef CURSOR_FIRST    /* an edit locks the cursor before it looks at runs */
#define CURSOR_FIRST 1
#endif
#ifndef CLOCK_LAST      /* an edit reads the clock after it has locked the runs nobody started */
#define CLOCK_LAST 1
#endif
#ifndef KEEP_DUE        /* an edit leaves runs that are due, also when their fire time is not over */
#define KEEP_DUE 1
#endif
#ifndef TELL            /* a jump of the watermark is written down as missed */
#define TELL 1
#endif
#ifndef PENDING         /* nobody decides while an edit waits for a node to finish it */
#define PENDING 1
#endif
#ifndef ONE_STATEMENT   /* a run leaves the live table in the statement that writes its history */
#define ONE_STATEMENT 1
#endif

#define OLD 7           /* names 1, 2 and 3 */
#define NEW 5           /* names 1 and 3 */
#define NAMES(timing, f) ((timing >> (f - 1)) & 1)
#define MUST(fine, sentence) if :: fine :: else -> printf("BROKEN: "); printf(sentence); assert(false) fi

byte now, generation = 1, watermark, timing = OLD;
bit paused, pending, cursor_lock, runs_lock, edited;
byte edit_time;
bit is_new_timing;
byte live[LAST + 1];                        /* the generation of a ready row; 0: there is none */
bit early[LAST + 1], written[LAST + 1], missed[LAST + 1], claimed[LAST + 1];
byte began[LAST + 1], ended[LAST + 1];
byte earlies;

/* What the schedule named when the time came: before an edit the old timing, after it the new one. */
#define OWED(f) (NAMES((edited && is_new_timing && f > edit_time -> NEW : OLD), f))

inline decide(f, plan_generation) {
  if :: (LEDGER && !written[f]) || (!LEDGER && live[f] == 0 && !claimed[f]) ->
        written[f] = 1; live[f] = plan_generation; printf("fire %d becomes a run of generation %d\n", f, plan_generation)
     :: else fi;
  MUST(!missed[f] || (early[f] && !STRICT), "a fire is in the ledger and missed\n") }

inline tell(f) {
  missed[f] = 1; printf("fire %d is told as missed\n", f);
  MUST(!written[f] || (early[f] && !STRICT), "a fire is in the ledger and missed\n") }

proctype Materializer(byte me) {
  byte g, w, at, to, names, latest, f; bit has_plan;
end: do
  :: atomic { !has_plan && !paused && !(pending && PENDING) && watermark < LAST && watermark < now + HORIZON ->
       has_plan = 1; g = generation; w = watermark; at = now; names = timing; printf("materializer %d reads: generation %d, watermark %d, time %d\n", me, g, w, at) }
  :: atomic { has_plan && !cursor_lock ->                   /* SKIP LOCKED: with the lock taken it would decide nothing, and look again */
       if :: (CAS_GENERATION -> generation == g : true) && (CAS_WATERMARK -> watermark == w : true) && !(pending && PENDING) ->
             to = (at + HORIZON < LAST -> at + HORIZON : LAST); latest = 0;
             for (f : 1 .. LAST) { if :: f > w && f < at && NAMES(names, f) && CATCHUP -> latest = f :: else fi }
             for (f : 1 .. LAST) {
               if :: f > w && f <= to && NAMES(names, f) && (f >= at || f == latest) -> decide(f, g)
                  :: f > w && f <= to && NAMES(names, f) && !(f >= at || f == latest) -> tell(f)
                  :: else fi }
             watermark = to; printf("materializer %d: watermark %d\n", me, to)
          :: else fi;
       has_plan = 0; g = 0; w = 0; at = 0; to = 0; names = 0; latest = 0; f = 0 }
  :: atomic { has_plan && cursor_lock -> has_plan = 0; g = 0; w = 0; at = 0; names = 0 }
  od }

proctype Clock() { do :: atomic { now <= LAST -> now++; printf("it is %d\n", now) } :: now > LAST -> break od }

/* Claims and completions of one fire. */
proctype Worker(byte f) {
end: do
  :: atomic { live[f] != 0 && !runs_lock && (f <= now || early[f]) ->
       claimed[f] = 1; began[f]++; printf("fire %d begins\n", f);
       MUST(began[f] <= 1, "a fire is run twice\n");
       MUST(early[f] || OWED(f), "a fire is run that the schedule no longer named\n");
       MUST(early[f] || !edited || f <= edit_time || live[f] == generation, "a run of the old generation begins after the edit\n");
       live[f] = 0 }
  :: atomic { claimed[f] -> ended[f]++; MUST(ended[f] == 1, "a run ended twice\n"); if :: claimed[f] = 0 :: !ONE_STATEMENT -> skip fi }
  :: atomic { live[f] != 0 && !runs_lock && f > now && !early[f] && earlies < EARLY -> earlies++; early[f] = 1; printf("somebody runs fire %d early\n", f) }
  od }

inline locks_cursor() { atomic { cursor_lock = 1; if :: !CLOCK_LAST -> edit_time = now :: else fi } }
inline locks_runs() { atomic { runs_lock = 1 } }
inline deletes() {
  for (f : 1 .. LAST) {
    if :: live[f] != 0 && f > edit_time && (!early[f] || !KEEP_DUE) -> live[f] = 0; written[f] = 0; printf("the edit removes fire %d\n", f) :: else fi }
  f = 0 }
inline tells_up_to_now(names) {
  for (f : 1 .. LAST) { if :: TELL && f > watermark && f <= edit_time && NAMES(names, f) -> tell(f) :: else fi }
  f = 0 }

/* apply_edit: from its first lock to its commit. */
inline applies(new_timing, pauses, resumes) {
#if CURSOR_FIRST
  locks_cursor(); locks_runs();
  atomic { if :: CLOCK_LAST -> edit_time = now :: else fi; printf("an edit at %d\n", edit_time); deletes();
#else
  locks_runs();
  atomic { edit_time = now; printf("an edit at %d\n", edit_time); deletes() };
  atomic { !cursor_lock -> skip;
#endif
    is_new_timing = is_new_timing || new_timing; edited = 1;
    if :: watermark < edit_time && (resumes || (new_timing && !pauses)) -> tells_up_to_now(OLD); watermark = edit_time
       :: else -> watermark = (watermark < edit_time -> watermark : edit_time) fi;
    timing = (is_new_timing -> NEW : OLD);
    generation++; paused = pauses; pending = 0; cursor_lock = 0; runs_lock = 0 } }

proctype Edit() {
  byte f;
#if EDIT == 1
  applies(1, 0, 0);
#elif EDIT == 2
  applies(0, 0, 0);
#elif EDIT == 3
  applies(0, 1, 0);
  applies(0, 0, 1);
#elif EDIT == 4
  atomic { !cursor_lock -> generation++; pending = 1; timing = NEW; printf("an edit that a node must finish\n") };
  applies(1, 0, 0);
#endif
  skip }

proctype Quiet() {
  byte f;
  timeout;
  for (f : 1 .. LAST) { MUST(!OWED(f) || written[f] || missed[f], "a fire is neither in the ledger nor missed\n"); MUST(live[f] == 0 && !claimed[f], "a run has not ended\n");
    MUST(!early[f] || began[f] == 1, "a fire that somebody ran early is not run\n") } }

init { atomic { run Materializer(0); run Materializer(1); run Clock(); run Worker(1); run Worker(2); run Worker(3); run Edit(); run Quiet() } }
