/* A run from ready to its outcome, as built: nodes with leases, claims, fences, answers that get lost, reaper, cancel.
 *
 * One SQL statement is one atomic step, unless a snapshot and its lock are apart in the product; then they are apart here. Between
 * two steps anything may wait for ever. Every guard of the protocol is a switch (1: as built), every fault has a budget, so that
 * each execution ends, and process Quiet looks whether each run has ended when nothing more can happen. README.md says more. */

/* Size and faults. */
#ifndef RUNS
#define RUNS 1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef OVERLAP            /* both runs are fires of one schedule with overlap 'skip' */
#define OVERLAP 0
#endif
#ifndef ONCE            /* run 0 is at_most_once */
#define ONCE 0
#endif
#ifndef TIMELY          /* 1: clocks run at one pace, so a lease ends in its node before it ends in the database; 0: a node may freeze */
#define TIMELY 1
#endif
#ifndef LAPSES          /* leases that run out by their node's own clock */
#define LAPSES 0
#endif
#ifndef CRASHES         /* kill -9, with restart in the same folder */
#define CRASHES 0
#endif
#ifndef DEATHS          /* kill -9 for ever, of node 1 at most */
#define DEATHS 0
#endif
#ifndef LOST            /* answers that never come, of statements that were executed */
#define LOST 0
#endif
#ifndef LATE            /* statements whose sender gives up before the server executes them, if ever */
#define LATE 0
#endif
#ifndef BEATS           /* beats whose sending, execution and answer are apart */
#define BEATS 0
#endif
#ifndef STOPS           /* nodes told to stop in order */
#define STOPS 0
#endif
#ifndef STALLS          /* runs given back because those that execute here last too long */
#define STALLS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef STALE           /* reapers that pause between what they saw and what they lock */
#define STALE 0
#endif
#ifndef EXPIRY          /* run 0 has a start deadline */
#define EXPIRY 0
#endif
#ifndef FAILOVER        /* the server is replaced by a standby that lacks the last commits */
#define FAILOVER 0
#endif
#ifndef OTHERS          /* run 1 is blocked; somebody supersedes run 0, or gives it up when its time in all is over */
#define OTHERS 0
#endif

/* Guards. */
#ifndef TOKEN           /* who may end an attempt: 2 the holder of its token, 1 of its number, 0 whoever names the run */
#define TOKEN 2
#endif
#ifndef LOOKUP          /* what is refused when sent again is looked up by its fence number */
#define LOOKUP 1
#endif
#ifndef RESEND          /* an end without answer is sent again */
#define RESEND 1
#endif
#ifndef RECONCILE       /* a beat settles rows of mine that I do not know */
#define RECONCILE 1
#endif
#ifndef SETTLED         /* 2: not before the claims are settled that were under way when the row was first read; 1: … when its beat was sent; 0: at once */
#define SETTLED 2
#endif
#ifndef STRANGER_CANCEL /* a row that I do not know and that is to be cancelled ends as cancelled */
#define STRANGER_CANCEL 1
#endif
#ifndef SELF_FENCE      /* handlers are stopped before the lease is over */
#define SELF_FENCE 1
#endif
#ifndef FROM_SENDING    /* the lease counts from when its renewal was sent */
#define FROM_SENDING 1
#endif
#ifndef MAY_START       /* the lease is looked at before a handler begins */
#define MAY_START 1
#endif
#ifndef SAME_LIFE       /* what an earlier incarnation has claimed is never begun */
#define SAME_LIFE 1
#endif
#ifndef QUIET_JOIN      /* a new incarnation begins when nothing of the last one runs or waits */
#define QUIET_JOIN 1
#endif
#ifndef SUPERVISOR      /* children die with their node, and before its folder is free */
#define SUPERVISOR 1
#endif
#ifndef OBSERVER        /* a node is silent when the observer's own clock says so as well */
#define OBSERVER 1
#endif
#ifndef BEAT_CAS        /* a node is declared dead only with the beat the observer has seen */
#define BEAT_CAS 1
#endif
#ifndef LEVEL           /* the reaper looks at all rows again and again, not at those it finds when it declares a node dead */
#define LEVEL 1
#endif
#ifndef REAP_TOKEN      /* what is reaped is locked by the token that was seen */
#define REAP_TOKEN 1
#endif
#ifndef ONE_STATEMENT   /* a run leaves the live table in the statement that writes its history */
#define ONE_STATEMENT 1
#endif
#ifndef ASK_ONLY        /* nobody takes a run from a living owner */
#define ASK_ONLY 1
#endif
#ifndef KEEP_CANCEL     /* a run with a cancel request is not given back */
#define KEEP_CANCEL 1
#endif
#ifndef LOST_IS_LOST    /* an at_most_once run whose node dies is not retried */
#define LOST_IS_LOST 1
#endif
#ifndef KEEP_SLOT       /* a run that waits for its retry keeps its schedule */
#define KEEP_SLOT 1
#endif
#ifndef QUARANTINE      /* after a failover nobody claims for a lease: 2 whoever connects first says so; 1: whoever joins next; 0: nobody */
#define QUARANTINE 2
#endif
#ifndef ONLY_UNTRIED    /* a run that was tried does not end as expired */
#define ONLY_UNTRIED 1
#endif

mtype = { nothing, blocked, ready, running, succeeded, dead, cancelled, skipped, superseded, upstream_failed, expired, lost,
          sent, looked, answered,                           /* a statement under way */
          waiting, executing, ending,                       /* a run that a node holds */
          claim, finish, fail, release, cancel, lapse, reap, pass_over, supersede, depend, expire, give_up };

typedef Row { mtype state; byte owner; byte token; byte attempt; bit slot; bit to_cancel; bit deadline };
typedef Held { mtype phase; byte token; bit fresh; mtype told; byte told_token; bit resent; byte number; byte told_number; byte stranger; bit unsettled; byte beat_token; bit beat_cancel };
typedef Node {
  byte life;            /* its incarnation; 0: it has none */
  bit lease;            /* held, by its own clock */
  bit fenced;           /* learned that its life is over; the engine has not heard of it yet */
  bit stopping; bit gone;
  mtype claiming; byte claim_life; byte claim_run; byte claim_token; byte claim_number; bit claim_is_early;
  mtype beating; bit beat_lives; bit beat_is_old; bit beat_after_claim;
  Held held[RUNS] };
Row row[RUNS];
Node node[2];
byte life_of[2]; bit lives[2];              /* each node's row: the newest incarnation, and whether it is alive */
mtype outcome[RUNS]; byte ended[RUNS]; byte ended_token[RUNS];
short attempts_ended[RUNS];                 /* fences of attempts that did not succeed, one bit each */
byte begun[RUNS]; bit asked[RUNS]; byte orphans[RUNS];
byte tokens, lives_begun;
byte verdict_node, verdict_life; bit verdict_holds;
mtype late; byte late_node, late_life, late_run, late_token, late_number;
byte seen_run, seen_token; bit deadline_passed, listed;
#if FAILOVER            /* the standby: the database as it was at some moment */
Row old_row[RUNS]; byte old_life_of[2]; bit old_lives[2]; mtype old_outcome[RUNS]; byte old_ended[RUNS]; byte old_ended_token[RUNS]; short old_attempts[RUNS];
bit lags, promoted, noted, synced[2], old_claim[2];
#endif
byte lapses, crashes, losses, delays, beats, stops, cancels, stalls, stale, jumps;

/* What is promised; the sentence is what a counterexample ends with. */
#define MUST(fine, sentence) if :: fine :: else -> printf("BROKEN: "); printf(sentence); assert(false) fi

/* FROM and TO: is this change ever made? */
#ifndef FROM
#define FROM 0
#define TO 0
#endif
/* Every change of a run, with the names of TABLE in tests/model/moves.py: a test compares. END moves the row to history. */
#define MOVE(r, from, to, why) assert(row[r].state == from); MUST(!(from == FROM && to == TO), "the change is made\n"); printf("run %d: %e -> %e (%e)\n", r, from, to, why); row[r].state = to
#define END(r, from, to, why) assert(row[r].state == from); MUST(!(from == FROM && to == TO), "the change is made\n"); printf("run %d: %e -> %e (%e)\n", r, from, to, why); \
  outcome[r] = to; ended[r]++; ended_token[r] = row[r].token; MUST(ended[r] == 1, "a run ended twice\n"); remove(r)

#define LIVES(n, a_life) (lives[n] && life_of[n] == (a_life))
#define OWNED(r) (LIVES(0, row[r].owner) || LIVES(1, row[r].owner))
#if OVERLAP
#define FREE(r) (!row[1 - (r)].slot)
#else
#define FREE(r) true
#endif
#define IS_LATE(r, is_early) (EXPIRY && row[r].deadline && deadline_passed && !(is_early))
#if FAILOVER
#define ALLOWED (!promoted || QUARANTINE == 0 || (QUARANTINE == 1 && !noted) || (synced[0] && synced[1]))
#define IS_SYNCED(n) synced[n] = synced[n] || !old_claim[n]
#define IS_ANSWERED(n) old_claim[n] = 0
#define LAG_IS_OVER (!lags || promoted)     /* taken for granted: the standby lags for less than a lease */
#else
#define ALLOWED true
#define LAG_IS_OVER true
#define IS_SYNCED(n) skip
#define IS_ANSWERED(n) skip
#endif
#define CLAIMABLE(r, is_early) (ALLOWED && row[r].state == ready && FREE(r) && !IS_LATE(r, is_early))
#define IS_ONCE(r) (ONCE && r == 0)
#define EXECUTIONS(r) ((node[0].held[r].phase == executing) + (node[1].held[r].phase == executing) + orphans[r])
#define MINE(n, r) (row[r].state == running && row[r].owner == node[n].life)
#define AGREES(n, r) ((node[n].held[r].phase != waiting && node[n].held[r].phase != executing) || (MINE(n, r) && HOLDS(n, r)))
#define HOLDS(n, r) (node[n].held[r].phase != 0 && node[n].held[r].token == row[r].token)

inline remove(r) {
  if :: row[r].state = 0; row[r].owner = 0; row[r].token = 0; row[r].attempt = 0; row[r].slot = 0; row[r].to_cancel = 0; row[r].deadline = 0
     :: !ONE_STATEMENT -> skip fi }                         /* the delete comes later, or never */

/* No two handlers of a run, or of a schedule, at once; of an at_most_once run never two. */
inline begins(r) {
  begun[r] = begun[r] + IS_ONCE(r);
  MUST(begun[r] <= 1, "an at_most_once run began twice\n");
  MUST(!TIMELY || EXECUTIONS(r) <= 1, "two handlers of one run at once\n");
  MUST(!TIMELY || !OVERLAP || EXECUTIONS(0) + EXECUTIONS(RUNS - 1) <= 1, "two handlers of one schedule at once\n") }

/* ---- what the database does ---- */

inline claims(r, a_life) {
  tokens++;
  MUST(!asked[r], "a run was claimed again after its cancel request was accepted\n");
  MOVE(r, ready, running, claim);
  row[r].token = tokens; row[r].owner = a_life; row[r].attempt++; row[r].slot = OVERLAP;
  MUST(!OVERLAP || !(row[0].slot && row[RUNS - 1].slot), "two runs hold one schedule: the unique index was hit\n") }

inline back_to_ready(r, why) {
  MOVE(r, running, ready, why);
  row[r].owner = 0; row[r].token = 0 }

inline ends_attempt(r, why) {                               /* judge_attempt and end_attempts */
  attempts_ended[r] = attempts_ended[r] | (1 << row[r].token);
  if :: why == cancel || row[r].to_cancel -> END(r, running, cancelled, why)
     :: else ->
        if :: IS_ONCE(r) && why == lapse && LOST_IS_LOST -> END(r, running, lost, why)
           :: IS_ONCE(r) && why != lapse -> END(r, running, dead, why)
           :: else ->
              if :: row[r].attempt < ATTEMPTS -> back_to_ready(r, why); row[r].deadline = 0; row[r].slot = row[r].slot && KEEP_SLOT
                 :: else -> END(r, running, dead, why) fi fi fi }

inline gives_back(r) {                                      /* release_runs: the handler never began, or the node stops */
  back_to_ready(r, release);
  row[r].attempt--; row[r].slot = row[r].slot && row[r].attempt > 0; row[r].to_cancel = 0 }

#define FITS(r, a_token, an_attempt) (row[r].state == running && (TOKEN == 0 || (TOKEN == 1 && row[r].attempt == an_attempt) || row[r].token == a_token))
#define NUMBER(r) (TOKEN == 1 -> row[r].attempt : 0)        /* kept only where it is the fence */

inline is_told(r, told_why, a_token, an_attempt) {          /* finish_runs, fail_runs, release_runs; `accepted` says what came of it */
  accepted = FITS(r, a_token, an_attempt); why = told_why;
  if :: accepted ->
        MUST(row[r].token == a_token, "an attempt was ended by somebody who does not hold it\n");
        if :: why == release && row[r].to_cancel && KEEP_CANCEL -> why = cancel :: else fi;
        if :: why == finish -> END(r, running, succeeded, finish)
           :: why == release -> gives_back(r)
           :: else -> ends_attempt(r, why) fi
     :: else fi;
  why = 0 }

/* ---- the node ---- */

inline stops_handler(n, r, why) {                           /* it has really stopped; its end is to be told */
  if :: node[n].held[r].phase == waiting || node[n].held[r].phase == executing ->
        printf("node %d: run %d stops (%e)\n", n, r, why);
        node[n].held[r].phase = ending; node[n].held[r].told = why; node[n].held[r].told_token = node[n].held[r].token; node[n].held[r].told_number = node[n].held[r].number; node[n].held[r].resent = 0
     :: else fi }

inline forgets(n, r) { node[n].held[r].phase = 0; node[n].held[r].number = 0; node[n].held[r].token = 0; node[n].held[r].fresh = 0 }

inline claims_settled(n) {
  IS_ANSWERED(n);
  node[n].claiming = 0; node[n].claim_life = 0; node[n].claim_run = 0; node[n].claim_token = 0; node[n].claim_number = 0; node[n].claim_is_early = 0;
  node[n].beat_after_claim = 0; node[n].held[0].unsettled = 0; node[n].held[RUNS - 1].unsettled = 0 }

inline is_fenced(n) {                                       /* a beat says: this incarnation is dead for ever */
  printf("node %d: life %d is over\n", n, node[n].life);
  node[n].life = 0; node[n].lease = 0; node[n].fenced = 1 }

inline is_renewed(n) { if :: verdict_life == life_of[n] && verdict_node == n -> verdict_holds = 0 :: else fi }

inline settles_stranger(r, a_token) {                       /* given back; with a cancel request it ends */
  if :: row[r].state == running && row[r].token == a_token && !(row[r].to_cancel && KEEP_CANCEL) -> gives_back(r)
     :: row[r].state == running && row[r].token == a_token && row[r].to_cancel && KEEP_CANCEL && STRANGER_CANCEL -> ends_attempt(r, cancel)
     :: else fi }

inline reconciles(n, r) {                                   /* the answer of a slow beat */
  if :: node[n].held[r].beat_token != 0 && !(node[n].held[r].phase != 0 && node[n].held[r].token == node[n].held[r].beat_token) ->
        if :: (node[n].held[r].stranger == node[n].held[r].beat_token && !node[n].held[r].unsettled || SETTLED == 0) && RECONCILE ->
              printf("node %d: gives back run %d (token %d), which it does not know\n", n, r, node[n].held[r].beat_token);
              settles_stranger(r, node[n].held[r].beat_token); node[n].held[r].stranger = 0
           :: else ->
              if :: node[n].held[r].stranger == node[n].held[r].beat_token -> skip
                 :: else -> node[n].held[r].stranger = node[n].held[r].beat_token;
                    node[n].held[r].unsettled = (SETTLED == 2 -> node[n].claiming != 0 : node[n].beat_after_claim) fi fi
     :: else -> node[n].held[r].stranger = 0 fi;
  if :: node[n].held[r].beat_token != node[n].held[r].token && !node[n].held[r].fresh -> stops_handler(n, r, lapse)
     :: node[n].held[r].beat_token == node[n].held[r].token && node[n].held[r].beat_cancel -> stops_handler(n, r, cancel)
     :: else fi;
  node[n].held[r].fresh = 0; node[n].held[r].beat_token = 0; node[n].held[r].beat_cancel = 0 }

#define IS_RECORDED(r, a_fence) (ended_token[r] == a_fence || (attempts_ended[r] >> a_fence) & 1)
inline is_over(n, r) { node[n].held[r].told = 0; node[n].held[r].told_token = 0; node[n].held[r].told_number = 0; node[n].held[r].resent = 0 }

#if FAILOVER
inline IS_NOTED() { if :: promoted -> noted = 1 :: else fi }
#else
inline IS_NOTED() { skip }
#endif

inline loses_all(n) {                                       /* the process is gone */
  for (k : 0 .. RUNS - 1) {
    if :: node[n].held[k].phase == executing && !SUPERVISOR -> orphans[k]++ :: else fi;
    forgets(n, k);
    is_over(n, k);
    node[n].held[k].stranger = 0; node[n].held[k].beat_token = 0; node[n].held[k].beat_cancel = 0 }
  k = 0;
  IS_ANSWERED(n); IS_SYNCED(n); node[n].life = 0; node[n].lease = 0; node[n].fenced = 0; node[n].stopping = 0;
  node[n].beating = 0; node[n].beat_lives = 0; node[n].beat_is_old = 0; claims_settled(n) }

#define HAS_WORK(n) (node[n].held[0].phase == waiting || node[n].held[0].phase == executing || node[n].held[RUNS-1].phase == waiting || node[n].held[RUNS-1].phase == executing)
#define HOLDS_ANY(n) (node[n].held[0].phase != 0 || node[n].held[RUNS-1].phase != 0)

inline copies(to_row, from_row) {
  to_row.state = from_row.state; to_row.owner = from_row.owner; to_row.token = from_row.token; to_row.attempt = from_row.attempt; to_row.slot = from_row.slot;
  to_row.to_cancel = from_row.to_cancel; to_row.deadline = from_row.deadline }
inline empties(a_row) { a_row.state = 0; a_row.owner = 0; a_row.token = 0; a_row.attempt = 0; a_row.slot = 0; a_row.to_cancel = 0; a_row.deadline = 0 }

/* The lease: engine/session.py, reconcile.py. The thread of the session, and what its beats make the engine do. */
proctype Session(byte me) {
  byte k;
end: do
  :: atomic { node[me].life == 0 && !node[me].gone && !(QUIET_JOIN && HAS_WORK(me)) ->
       lives_begun++; life_of[me] = lives_begun; lives[me] = 1; node[me].life = lives_begun; node[me].lease = 1; IS_NOTED();
       printf("node %d: joins with life %d\n", me, lives_begun) }
  :: atomic { node[me].fenced -> node[me].fenced = 0; IS_SYNCED(me);      /* the engine hears of it */
       for (k : 0 .. RUNS - 1) { if :: node[me].held[k].phase == waiting -> forgets(me, k) :: else -> stops_handler(me, k, lapse) fi }
       k = 0 }
  /* A beat at once, as far as it changes something. */
  :: atomic { node[me].life != 0 && node[me].beating == 0 && !LIVES(me, node[me].life) -> is_fenced(me) }
  :: atomic { node[me].life != 0 && node[me].beating == 0 && LIVES(me, node[me].life) && !node[me].lease ->
       node[me].lease = 1; is_renewed(me); printf("node %d: renews\n", me);
#if FAILOVER            /* what the new server does not know is stopped before anything begins */
       for (k : 0 .. RUNS - 1) { if :: !AGREES(me, k) -> stops_handler(me, k, lapse) :: else fi }
       k = 0
#endif
     }
#if BEATS
  :: atomic { node[me].life != 0 && node[me].beating == 0 && beats < BEATS ->
       beats++; node[me].beating = sent; node[me].beat_after_claim = (node[me].claiming != 0); printf("node %d: sends a beat\n", me) }
  :: atomic { node[me].beating == sent ->
       node[me].beating = answered; node[me].beat_lives = LIVES(me, node[me].life);
       if :: node[me].beat_lives -> is_renewed(me);
             for (k : 0 .. RUNS - 1) { if :: MINE(me, k) -> node[me].held[k].beat_token = row[k].token; node[me].held[k].beat_cancel = row[k].to_cancel :: else fi }
             k = 0
          :: else fi;
       printf("node %d: its beat is executed\n", me) }
  :: atomic { node[me].beating == answered ->
       printf("node %d: its beat is answered\n", me);
       if :: node[me].life == 0 -> skip
          :: node[me].life != 0 && !node[me].beat_lives -> is_fenced(me)
          :: else ->
             if :: node[me].beat_is_old && FROM_SENDING -> skip :: else -> node[me].lease = 1 fi;
             for (k : 0 .. RUNS - 1) { reconciles(me, k) }
             k = 0 fi;
       node[me].beating = 0; node[me].beat_lives = 0; node[me].beat_is_old = 0; node[me].beat_after_claim = 0 }
#endif
  /* Its own clock: the lease is over; what executes is stopped by then. */
  :: atomic { node[me].life != 0 && LAG_IS_OVER && (node[me].lease || (node[me].beating == answered && !node[me].beat_is_old)) && lapses < LAPSES ->
       lapses++; node[me].lease = 0; node[me].beat_is_old = (node[me].beating == answered);
       printf("node %d: its lease runs out\n", me);
#if FAILOVER            /* taken for granted: no answer is older than a lease */
       claims_settled(me);
#endif
       for (k : 0 .. RUNS - 1) { if :: node[me].held[k].phase == executing && SELF_FENCE -> stops_handler(me, k, lapse) :: else fi }
       k = 0; IS_SYNCED(me) }
#if FAILOVER
  /* A beat of the new server, after it was obeyed: what this node holds is what the database thinks. */
  :: atomic { promoted && !synced[me] && !old_claim[me] && node[me].life != 0 && node[me].beating == 0 && LIVES(me, node[me].life) && AGREES(me, 0) && AGREES(me, RUNS - 1) ->
       synced[me] = 1; is_renewed(me); node[me].lease = 1; printf("node %d: agrees with the new server\n", me) }
#endif
#if CRASHES
  :: atomic { node[me].life != 0 && crashes < CRASHES -> crashes++; printf("node %d: killed\n", me); loses_all(me) }
#endif
#if DEATHS
  :: atomic { me == 1 && node[me].life != 0 -> printf("node %d: killed for ever\n", me); loses_all(me); node[me].gone = 1 }
#endif
#if STOPS
  :: atomic { me == 1 && node[me].life != 0 && stops < STOPS -> stops++; node[me].stopping = 1; printf("node %d: is told to stop\n", me);
       for (k : 0 .. RUNS - 1) { if :: node[me].held[k].phase == waiting -> stops_handler(me, k, release) :: else fi }
       k = 0 }
  :: atomic { node[me].stopping && node[me].life != 0 && node[me].claiming == 0 && !HOLDS_ANY(me) ->
       if :: LIVES(me, node[me].life) -> lives[me] = 0 :: else fi;
       printf("node %d: leaves\n", me); loses_all(me); node[me].gone = 1 }
#endif
  od }

/* Claims: engine/dispatcher.py. One is under way at a time. */
proctype Dispatcher(byte me) {
end: do
  :: atomic { node[me].life != 0 && node[me].lease && !node[me].stopping && node[me].claiming == 0 && LIVES(me, node[me].life) &&
              (CLAIMABLE(0, 0) || CLAIMABLE(RUNS - 1, 0)) -> node[me].claiming = sent; node[me].claim_life = node[me].life }
  /* The statement's snapshot: is my session alive? Nobody looks again when the rows are locked. */
  :: atomic { node[me].claiming == sent && LIVES(me, node[me].claim_life) -> node[me].claiming = looked; node[me].claim_is_early = !deadline_passed }
  :: atomic { node[me].claiming == sent && !LIVES(me, node[me].claim_life) -> claims_settled(me) }
  :: atomic { node[me].claiming == looked && CLAIMABLE(0, node[me].claim_is_early) -> claims(0, node[me].claim_life);
       node[me].claiming = answered; node[me].claim_run = 0; node[me].claim_token = tokens; node[me].claim_number = NUMBER(0); node[me].claim_is_early = 0;
       printf("node %d: its claim of run 0 (token %d) is executed\n", me, tokens) }
#if RUNS > 1
  :: atomic { node[me].claiming == looked && CLAIMABLE(1, node[me].claim_is_early) -> claims(1, node[me].claim_life);
       node[me].claiming = answered; node[me].claim_run = 1; node[me].claim_token = tokens; node[me].claim_number = NUMBER(1); node[me].claim_is_early = 0;
       printf("node %d: its claim of run 1 (token %d) is executed\n", me, tokens) }
#endif
  :: atomic { node[me].claiming == looked && !CLAIMABLE(0, node[me].claim_is_early) && !CLAIMABLE(RUNS - 1, node[me].claim_is_early) -> claims_settled(me) }
  :: atomic { node[me].claiming == answered ->
       if :: node[me].lease && !node[me].stopping && (node[me].life == node[me].claim_life || (!SAME_LIFE && node[me].life != 0)) ->
             MUST(node[me].held[node[me].claim_run].phase == 0 || node[me].held[node[me].claim_run].phase == ending,
                  "a node gets a run that it still executes, or is about to\n");
             node[me].held[node[me].claim_run].phase = waiting; node[me].held[node[me].claim_run].token = node[me].claim_token;
             node[me].held[node[me].claim_run].number = node[me].claim_number;
             node[me].held[node[me].claim_run].fresh = (node[me].beating != 0);
             printf("node %d: has run %d (token %d)\n", me, node[me].claim_run, node[me].claim_token)
          :: else ->                                        /* _take: told to stop, endangered, or another life: given back */
             if :: node[me].life != 0 && row[node[me].claim_run].state == running && row[node[me].claim_run].token == node[me].claim_token &&
                   !(row[node[me].claim_run].to_cancel && KEEP_CANCEL) -> gives_back(node[me].claim_run)
                :: else fi fi;
       claims_settled(me) }
  :: atomic { node[me].claiming == answered && losses < LOST -> losses++; claims_settled(me); printf("node %d: the answer to its claim is lost\n", me) }
#if LATE
  :: atomic { node[me].claiming == sent && delays < LATE && late == 0 ->
       delays++; late = claim; late_node = me; late_life = node[me].claim_life; claims_settled(me); printf("node %d: gives its claim up\n", me) }
#endif
  od }

/* One run in one node: engine/runner.py, completer.py. */
proctype Work(byte me, r) {
  bit accepted; mtype why;
end: do
  :: atomic { node[me].held[r].phase == waiting && (node[me].lease || !MAY_START) && !node[me].stopping ->
       node[me].held[r].phase = executing; printf("node %d: begins run %d\n", me, r); begins(r) }
  :: atomic { node[me].held[r].phase == executing -> stops_handler(me, r, finish); }
  :: atomic { node[me].held[r].phase == executing -> stops_handler(me, r, fail) }
#if STOPS
  :: atomic { node[me].held[r].phase == executing && node[me].stopping ->
       if :: IS_ONCE(r) -> stops_handler(me, r, lapse) :: else -> stops_handler(me, r, release) fi }
#endif
#if STALLS
  :: atomic { node[me].held[r].phase == waiting && node[me].claiming == 0 && stalls < STALLS -> stalls++; printf("node %d: gives run %d back\n", me, r);
       if :: is_told(r, release, node[me].held[r].token, node[me].held[r].number)
          :: losses < LOST -> losses++ fi;                  /* not executed: the next beats find what is still ours */
       forgets(me, r);
       accepted = 0 }
#endif
  /* The end is told: the statement is executed, and answered or not. */
  :: atomic { node[me].held[r].told != 0 ->
       is_told(r, node[me].held[r].told, node[me].held[r].told_token, node[me].held[r].told_number);
       if :: losses < LOST -> losses++; printf("node %d: the answer about run %d is lost\n", me, r);
             if :: RESEND -> node[me].held[r].resent = 1 :: else -> forgets(me, r); is_over(me, r) fi
          :: if :: accepted || (node[me].held[r].resent && LOOKUP && IS_RECORDED(r, node[me].held[r].told_token)) -> skip
                :: else -> printf("node %d: learns that run %d is not its own\n", me, r);
                   MUST(node[me].held[r].told != finish || outcome[r] != succeeded || ended_token[r] != node[me].held[r].told_token,
                        "a node takes its recorded success for a fenced one\n") fi;
             if :: node[me].held[r].phase == ending && node[me].held[r].token == node[me].held[r].told_token -> forgets(me, r) :: else fi;
             is_over(me, r) fi;
       accepted = 0 }
  /* It is not executed now; perhaps later, perhaps never. */
#if LATE
  :: atomic { node[me].held[r].told != 0 && delays < LATE && late == 0 -> delays++;
       late = node[me].held[r].told; late_run = r; late_token = node[me].held[r].told_token; late_number = node[me].held[r].told_number;
       printf("node %d: no answer about run %d\n", me, r);
       if :: RESEND -> node[me].held[r].resent = 1 :: else -> forgets(me, r); is_over(me, r) fi }
#endif
  /* Two beats at once, no claim under way: a row of mine that I do not know. */
#if RECONCILE
  :: atomic { node[me].life != 0 && node[me].beating == 0 && node[me].claiming == 0 && LIVES(me, node[me].life) && MINE(me, r) && !HOLDS(me, r) &&
              (!row[r].to_cancel || STRANGER_CANCEL || !KEEP_CANCEL) ->
       printf("node %d: two beats show run %d, which it does not know\n", me, r);
       node[me].lease = 1; is_renewed(me); settles_stranger(r, row[r].token) }
#endif
  /* A beat: what I hold was taken away, or is to stop. */
  :: atomic { node[me].life != 0 && node[me].beating == 0 && LIVES(me, node[me].life) &&
              (node[me].held[r].phase == waiting || node[me].held[r].phase == executing) && !(MINE(me, r) && HOLDS(me, r)) ->
       node[me].lease = 1; is_renewed(me); stops_handler(me, r, lapse) }
#if CANCELS
  :: atomic { node[me].life != 0 && node[me].beating == 0 && LIVES(me, node[me].life) && MINE(me, r) && HOLDS(me, r) && row[r].to_cancel &&
              (node[me].held[r].phase == waiting || node[me].held[r].phase == executing) ->
       node[me].lease = 1; is_renewed(me); stops_handler(me, r, cancel) }
#endif
  od }

/* A node's lease is over by its own clock, or nobody is there to believe in it. */
#define IS_SILENT(n) ((node[n].life != life_of[n] || !node[n].lease) && !(node[n].beating == answered && node[n].beat_lives && !node[n].beat_is_old))

/* engine/reaper.py on all nodes together; also the session of a successor that holds the lock of the folder. */
proctype Reaper() {
  byte n, r;
end: do
  :: atomic { verdict_life == 0 && lives[0] && IS_SILENT(0) -> verdict_node = 0; verdict_life = life_of[0]; verdict_holds = 1 }
  :: atomic { verdict_life == 0 && lives[1] && IS_SILENT(1) -> verdict_node = 1; verdict_life = life_of[1]; verdict_holds = 1 }
#if !OBSERVER || !TIMELY
  :: atomic { verdict_life == 0 && jumps < 1 -> jumps++;    /* the database's clock was stepped, or the node is frozen */
       if :: lives[0] -> verdict_node = 0 :: lives[1] -> verdict_node = 1 :: else fi;
       verdict_life = life_of[verdict_node]; verdict_holds = 1 }
#endif
  :: atomic { verdict_life != 0 ->
       if :: LIVES(verdict_node, verdict_life) && (verdict_holds || !BEAT_CAS) ->
             lives[verdict_node] = 0; printf("life %d is declared dead\n", verdict_life);
#if !LEVEL
             for (r : 0 .. RUNS - 1) { if :: row[r].state == running && row[r].owner == verdict_life -> ends_attempt(r, lapse) :: else fi }
             r = 0
#endif
          :: else fi;
       verdict_life = 0; verdict_node = 0; verdict_holds = 0 }
#if LEVEL
  :: atomic { row[0].state == running && !OWNED(0) -> ends_attempt(0, lapse) }
#if RUNS > 1
  :: atomic { row[1].state == running && !OWNED(1) -> ends_attempt(1, lapse) }
#endif
#endif
#if STALE
  :: atomic { row[0].state == running && !OWNED(0) && stale < STALE && seen_token == 0 -> stale++; seen_token = row[0].token; printf("a reaper sees run 0 (token %d)\n", seen_token) }
  :: atomic { seen_token != 0 -> if :: row[0].state == running && (!REAP_TOKEN || row[0].token == seen_token) -> ends_attempt(0, lapse) :: else fi; seen_token = 0 }
#endif
#if !ASK_ONLY
  :: atomic { row[0].state == running && row[0].to_cancel -> ends_attempt(0, cancel) }
#endif
  od }

/* A statement whose sender has given it up. */
#if LATE
proctype Network() {
  bit accepted; mtype why;
end: do
  :: atomic { late == claim -> if :: LIVES(late_node, late_life) && CLAIMABLE(0, 0) -> printf("a claim that node %d gave up is executed\n", late_node); claims(0, late_life) :: else fi;
       late = 0; late_node = 0; late_life = 0 }
  :: atomic { late != 0 && late != claim -> printf("what was told about run %d and given up is executed\n", late_run);
       is_told(late_run, late, late_token, late_number); accepted = 0; late = 0; late_run = 0; late_token = 0; late_number = 0 }
  :: atomic { late != 0 -> late = 0; late_node = 0; late_life = 0; late_run = 0; late_token = 0; late_number = 0 }
  od }
#endif

/* A standby that follows without being waited for, and its promotion. The quarantine lasts for the longest lease: in that time each
 * node's last answer from the old server has come or never will, and a beat of the new one was obeyed, or its lease has run out. */
#if FAILOVER
proctype Standby() {
  byte k;
end: do
  :: atomic { !lags && !promoted -> lags = 1; printf("the standby lags from here\n");
       for (k : 0 .. RUNS - 1) { copies(old_row[k], row[k]); old_outcome[k] = outcome[k]; old_ended[k] = ended[k]; old_ended_token[k] = ended_token[k]; old_attempts[k] = attempts_ended[k] }
       for (k : 0 .. 1) { old_life_of[k] = life_of[k]; old_lives[k] = lives[k] }
       k = 0 }
  :: atomic { lags && !promoted -> promoted = 1; printf("the standby is promoted\n");
       for (k : 0 .. RUNS - 1) { copies(row[k], old_row[k]); outcome[k] = old_outcome[k]; ended[k] = old_ended[k]; ended_token[k] = old_ended_token[k]; attempts_ended[k] = old_attempts[k] }
       for (k : 0 .. 1) { life_of[k] = old_life_of[k]; lives[k] = old_lives[k]; old_life_of[k] = 0; old_lives[k] = 0; old_claim[k] = (node[k].claiming != 0); synced[k] = !old_claim[k] && (node[k].life == 0 && !node[k].fenced || !node[k].lease && !node[k].fenced) }
       for (k : 0 .. RUNS - 1) { empties(old_row[k]); old_outcome[k] = 0; old_ended[k] = 0; old_ended_token[k] = 0; old_attempts[k] = 0 }
       k = 0; verdict_life = 0; verdict_node = 0; verdict_holds = 0 }
  od }
#endif

/* People, and the janitor. */
proctype Others() {
  byte r;
end: do
#if CANCELS
  :: atomic { cancels < CANCELS && row[0].state == ready -> cancels++; asked[0] = 1; END(0, ready, cancelled, cancel) }
  :: atomic { cancels < CANCELS && row[0].state == running -> cancels++; asked[0] = 1; row[0].to_cancel = 1; printf("somebody asks run 0 to stop\n") }
#endif
#if OVERLAP
  /* Under the schedule's lock: a due fire finds the schedule held. */
  :: atomic { row[0].state == ready && !row[0].slot && row[1].slot -> MUST(row[0].attempt == 0, "a run between two attempts was skipped\n"); END(0, ready, skipped, pass_over) }
  :: atomic { row[1].state == ready && !row[1].slot && row[0].slot -> MUST(row[1].attempt == 0, "a run between two attempts was skipped\n"); END(1, ready, skipped, pass_over) }
#endif
#if EXPIRY
  :: atomic { !deadline_passed -> deadline_passed = 1; printf("the start deadline passes\n") }
  :: atomic { !listed && row[0].state == ready && row[0].deadline && deadline_passed -> listed = 1; printf("the janitor sees that run 0 is late\n") }
  :: atomic { listed -> listed = 0;
       if :: row[0].state == ready && (row[0].attempt == 0 || !ONLY_UNTRIED) -> MUST(row[0].attempt == 0, "a run that was tried ended as expired\n"); END(0, ready, expired, expire) :: else fi }
#endif
#if OTHERS
  :: atomic { row[0].state == ready -> END(0, ready, superseded, supersede) }
  :: atomic { row[0].state == ready && row[0].attempt == 0 -> END(0, ready, upstream_failed, depend) }
  :: atomic { row[0].state == ready && row[0].attempt > 0 -> END(0, ready, dead, give_up) }
  :: atomic { row[1].state == blocked -> END(1, blocked, cancelled, cancel) }
#endif
  :: atomic { orphans[0] > 0 -> orphans[0]-- }
  od }

/* Nothing more can happen: has every run ended, once? */
proctype Quiet() {
  timeout;
  MUST(ended[0] == 1 && ended[RUNS - 1] == 1, "nothing more can happen, and a run has not ended\n") }

init { atomic {
  row[0].state = ready; row[0].deadline = EXPIRY; row[RUNS - 1].state = (OTHERS -> blocked : ready);
  run Session(0); run Session(1); run Dispatcher(0); run Dispatcher(1); run Reaper(); run Others(); run Quiet();
  run Work(0, 0); run Work(1, 0);
#if LATE
  run Network();
#endif
#if FAILOVER
  run Standby();
#endif
#if RUNS > 1
  run Work(0, 1); run Work(1, 1)
#endif
} }
