/* What the files of Perl's native half give each other, by file and from the top down: a file uses only what stands below it
 * here.
 *
 * methods.c prepares a call on one key and results.c reads its reply, for blocking calls and event loops alike. The library
 * receives a value straight into a Perl string, and a short value into the result of the calling op. A call copies its key
 * and value, because a signal handler may change the caller's variables meanwhile. Of many plain keys only the library
 * makes a copy.
 *
 * Perl exits by longjmp. So a callback catches a handler that dies or ends the program, lets the library return, and then
 * dies again.
 *
 * Handles are magic of the objects, which ithreads clone. The handle of a lock has its whole state, so acquiring and
 * releasing a lock runs no Perl code. */

#ifndef PINYON_PERL_H
#define PINYON_PERL_H

#include "structs.h"

/* Calls between files need no detour then. Pinyon.xs ends it. */
#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif

/* ==== coro.c: coroutines of Coro ===================================================================================== */
extern const coroutine_hooks coro_hooks;

void coro_load(pTHX); /* installs the methods of Pinyon::Coro::Cache */

/* ==== loop_batches.c: batches in an event loop ======================================================================= */
pinyon_batch *loop_batch(pTHX_ SV *client);
void loop_batch_add(pTHX_ SV *client, pinyon_batch *batch, unsigned number, SV **given, SSize_t count);
/* `tells`: the answer is what was not carried out. Otherwise a later one has it. */
operation *begin_batch_finish(pTHX_ SV *client, SV *object, SV *callback, bool tells);

/* ==== loop_many_gets.c: many keys that are read by one operation ===================================================== */
/* NULL: the keys need Perl's care, or are of two pools. */
operation *begin_many_gets(pTHX_ SV *self, AV *keys, bool with_cas, SV *callback);

/* ==== loop_locks.c: what is asked of locks in an event loop ========================================================== */
operation *begin_lock(pTHX_ SV *self, SV *object, HV *options, bool at_once, SV *callback);
operation *begin_names_wish(pTHX_ SV *self, pinyon_wish_kind kind, SV *names, SV *callback); /* to inspect, or a command */
operation *begin_rate(pTHX_ SV *self, SV *name, AV *terms, SV *callback);
operation *begin_force_release(pTHX_ SV *self, SV *names, SV *token, SV *callback);
operation *begin_release_all(pTHX_ SV *self, SV *timeout, SV *callback);
operation *begin_available(pTHX_ SV *self, SV *pool, SV *limit, SV *callback);
operation *begin_holders(pTHX_ SV *self, SV *lock, int kind, SV *number, SV *callback); /* see holders_wish */
operation *begin_last_release(pTHX_ SV *self, SV *lock, SV *callback); /* for an object that goes */

/* ==== loop_callbacks.c: calls with a callback, which is called whatever happens ====================================== */
bool ends_with_callback(pTHX_ SV **given, SSize_t count); /* whether the last arguments are cb => sub */
SV *begin_called_back(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback); /* NULL in a void context */
/* A call without a callback. Leaves on Perl's stack what the model returns, such as a promise. */
void promise_call(pTHX_ I32 ax, I32 items, unsigned number);

/* ==== loop_calls.c: calls of caches in an event loop ================================================================= */
SV *callback_kept(pTHX_ SV *callback); /* as it is called later: a sub itself, or an object that acts as one */
operation *operation_prepared(pTHX_ SV *self, SV *callback); /* let go at LEAVE unless it is begun: preparing it may die */
void operation_is_begun(loop_handle *loop, operation *begun);
/* NULL, with the error: it is refused. `target`: of the op that calls and gets the value, or NULL. */
operation *begin_unless_refused(pTHX_ cache_handle *cache, SV *self, call *one, SV *callback, SV *target,
                                pinyon_error **error);
operation *begin_call(pTHX_ SV *self, unsigned number, SV **given, SSize_t count, SV *callback, SV *target);
operation *begin_give_back(pTHX_ SV *self, SV *key, SV *token, bool stays, SV *callback);
operation *begin_question(pTHX_ SV *self, int number, SV *value, SV *delay, SV *callback);
/* Its reply goes to `making`, as that of the request with this number. */
operation *begin_step(pTHX_ SV *self, SV *making, size_t part, pinyon_request *request, SV *callback);
operation *begin_unawaited(pTHX_ SV *self, pinyon_request *request);
/* A method for each list of arguments, once all of them are known to make sense. The operations, or the error of one that
 * cannot be sent. */
AV *begin_many(pTHX_ SV *self, unsigned number, AV *calls, AV *callbacks);

/* ==== loop_replies.c: replies on their way to those who began ======================================================== */
void hand_out_replies(pTHX_ loop_handle *loop); /* those that are there */
void hand_out(pTHX_ loop_handle *loop); /* all, and sends what was begun meanwhile; then dies of what a callback died of */
SV *code_for_lane(pTHX_ SV *self, UV lane); /* a sub for the host's loop to call when a lane's descriptor is ready */

/* ==== loop.c: what the host's loop must do =========================================================================== */
extern const MGVTBL loop_table;

void loop_attach(pTHX_ SV *self, SV *client, SV *const *closures, const coroutine_hooks *coroutines);
loop_handle *loop_of(pTHX_ SV *object);
loop_handle *loop_ready(pTHX_ loop_handle *loop); /* to begin something; dies if the client is closed */
void loop_renew(pTHX_ loop_handle *loop); /* after a fork */
void loop_leave(pTHX_ void *loop); /* after replies were handed out */
void carry_out(pTHX_ loop_handle *loop); /* all that the library asks of the host's loop */
void carry_out_begun(pTHX_ loop_handle *loop); /* the same, after something was begun */
void announce_turn(pTHX_ loop_handle *loop); /* the host's loop calls before it waits */
void operation_abandon(pTHX_ operation *begun); /* its reply is not awaited any more */
SV *operation_object(pTHX_ operation *begun);
SV *begun_object(pTHX_ operation *begun); /* the same for what was begun just now, after the loop was told of it */
operation *operation_of(pTHX_ SV *object);
operation *operation_if_any(SV *object); /* or NULL */

/* ==== operation.c: what was begun, from the request to the answer ==================================================== */
operation *operation_new(pTHX_ SV *self);
operation *operation_of_loop(pTHX_ loop_handle *loop, SV *self); /* for a call: in memory of one that is over */
void operation_release(pTHX_ operation *begun);
void operation_link(operation **list, operation *begun);
void operation_unlink(operation *begun);
void remember_place(pTHX_ operation *begun); /* where the caller is, for the error that a callback may get later */
void place_error(pTHX_ SV *error, const char *file, line_t line);
void take_over(pTHX_ operation *begun, pinyon_reply *reply);
void read_answer(pTHX_ operation *begun); /* sets `value`, which may stay NULL, or `failure` */
/* What `read` of an operation may be. */
SV *read_call(pTHX_ operation *begun);
SV *read_servers(pTHX_ operation *begun);
SV *read_nothing(pTHX_ operation *begun);

/* ==== lock.c: a Pinyon::Lock, and how blocking calls acquire and release it ========================================== */
/* lock and try_lock: names and options are on Perl's stack from `ax` on, after the client. NULL: it is taken. */
SV *lock_acquired(pTHX_ I32 ax, I32 items, bool at_once);
SV *lock_object(pTHX_ HV *class, SV *client, SV *names); /* a new one in a mortal, not acquired yet */
void lock_reads(pTHX_ SV *object, SV *names); /* beside the names that it writes */
bool lock_is_over(const lock_handle *held);
void lock_note_release(lock_handle *held, bool is_held, bool is_released);
bool lock_released(pTHX_ SV *object); /* releases it; whether it was held until then */
/* Dies of the loss of a lock whose block ends, unless its holder has gone on without it. */
void die_of_loss(pTHX_ SV *object);
void lock_ends(pTHX_ SV *object); /* at the end of a block of code with a lock */
void lock_goes(pTHX_ SV *object); /* with its object */
void warn_of_unkept_lock(pTHX);

/* ==== locks.c: blocking wishes of a Pinyon::Locks ==================================================================== */
/* In a wait that has begun. If it fails, nothing but the error is left of the reply. */
pinyon_status carry_out_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply, waiting *wait);
void run_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish, pinyon_reply *reply); /* clear the reply */
SV *run_holders_wish(pTHX_ SV *lock, SV *locks, int kind, SV *number); /* a count, whether it was so, or a ticket */
IV run_plain_wish(pTHX_ locks_handle *locks, const pinyon_wish *wish); /* see plain_result */
SV *inspect_names(pTHX_ locks_handle *locks, SV *names);
SV *ask_rate(pTHX_ locks_handle *locks, SV *name, AV *terms);
SV *execute_command(pTHX_ locks_handle *locks, SV *parts);
void tell_permits(pTHX_ locks_handle *locks, SV *pool, SV *count, SV *limit);

/* ==== lock_events.c: what happens to locks by itself ================================================================= */
bool notes_are_due(pTHX_ locks_handle *locks);
void take_notes(pTHX_ locks_handle *locks, SV *client); /* tells of events and losses, if there are any. Runs Perl code */
void take_notes_of_lock(pTHX_ SV *object, const lock_handle *held);
void listen_for_loss(pTHX_ lock_handle *held);
void listen_no_more(lock_handle *held);

/* ==== lock_wishes.c: what is asked of locks, and what the reply means ================================================ */
/* Options of lock and try_lock. */
typedef enum {
    LOCK_TIMEOUT, LOCK_TTL, LOCK_RENEW, LOCK_REENTRANT, LOCK_MAX_HOLD, LOCK_OWNER, LOCK_ON_LOST, LOCK_AT_LEAST,
    LOCK_TICKET, LOCK_READS, LOCK_PERMITS, LOCK_ON_FAILURE, LOCK_NOTE, LOCK_OPTIONS
} lock_option;

void begin_wish(pinyon_wish *wish, pinyon_wish_kind kind);
lock_option wish_option(pTHX_ pinyon_wish *wish, const char *name, STRLEN size, SV *value); /* which one it was */
void wish_names(pTHX_ pinyon_wish *wish, SV *names); /* copied: one, or an array of them */
void wish_kept_names(pTHX_ pinyon_wish *wish, const lock_handle *held, pinyon_bytes *one); /* `one`: room for one */
void holders_wish(pTHX_ pinyon_wish *wish, SV *lock, int kind, SV *number); /* to release, extend, park or notify */
void release_all_wish(pTHX_ pinyon_wish *wish, SV *timeout);
void forced_wish(pTHX_ pinyon_wish *wish, SV *names, SV *token);
/* `terms`: limit, per, burst, n, timeout, whether it waits. */
void rate_wish(pTHX_ pinyon_wish *wish, pinyon_rate *rate, SV *name, AV *terms);
void available_wish(pTHX_ pinyon_wish *wish, SV *pool, SV *limit);
bool acquire_by_reply(pTHX_ SV *object, pinyon_reply *reply, bool at_once); /* false: the lock is taken */
SV *ticket_result(pTHX_ const pinyon_reply *reply);
IV plain_result(int kind, const pinyon_reply *reply); /* a count, or whether it was so */
SV *known_text(pTHX_ pinyon_bytes text);
SV *inspected_names(pTHX_ pinyon_reply *reply);
SV *rated_answer(pTHX_ const pinyon_reply *reply);
SV *executed_answer(pTHX_ pinyon_reply *reply); /* clears the reply */

/* ==== leaders.c: candidates for the leadership of a name ============================================================= */
SV *new_candidate(pTHX_ SV *name);
pinyon_candidate *candidate_of(pTHX_ SV *object);
/* What became of the last step, and what that is about: a token or a reason. `with` belongs to the step; NULL: nothing. */
const char *next_step(pTHX_ SV *object, SV *report, SV *about, SV **with);

/* ==== lock_names.c: names of locks and permits of pools, as Perl gives them ========================================== */
SV *name_kept(pTHX_ SV *name); /* as it stays, whatever happens to the caller's variables */
AV *several_names(SV *names); /* NULL: it is one */
SV *name_at(pTHX_ AV *list, size_t index);
void *mortal_room(pTHX_ size_t size);
pinyon_bytes *names_given(pTHX_ SV *names, size_t *count); /* copied: one, or an array of them */
pinyon_permits *permits_given(pTHX_ SV *given, size_t *count); /* of a hash of pools, copied */
pinyon_permits *permits_of_pool(pTHX_ SV *pool, SV *count, SV *limit); /* NULL: 1, and the limit as it was told */

/* ==== lock_handles.c: the handles of a Pinyon::Locks and of its locks ================================================ */
extern const MGVTBL locks_table, lock_table;

void locks_attach(pTHX_ SV *self, pinyon_locks *client);
locks_handle *locks_of(pTHX_ SV *object);
void locks_leave(pTHX_ locks_handle *locks);
lock_handle *held_of(pTHX_ SV *object);
pinyon_lock *lock_of(pTHX_ SV *object); /* dies if it is not acquired */
locks_handle *locks_of_lock(pTHX_ const lock_handle *held); /* of the client, whose object lives as long as the lock's */
void lock_link(lock_handle *held, locks_handle *locks);
bool lock_is_left_held(const lock_handle *held); /* whether an object that goes leaves a lock that is this process's */

/* ==== migration.c: a client that stands for an old and a new pool ==================================================== */
void migrating_attach(pTHX_ SV *self, const cache_handle *old, const cache_handle *new_one, SV *ttl, UV number);
void migrating_attach_old(pTHX_ cache_handle *cache, const cache_handle *old); /* how values of the old pool are read */
SV *progress_of(pTHX_ const cache_handle *cache);

/* ==== get_or_set.c: one caller's way to a value that may have to be made ============================================= */
extern const MGVTBL making_table;

pinyon_making *making_of(pTHX_ SV *object);
SV *making_run(pTHX_ cache_handle *cache, SV *self, pinyon_making *making); /* to the value, or NULL: it must be made */
SV *making_over(pTHX_ cache_handle *cache, SV *self, pinyon_reply *reply); /* the value at the end of a loop's steps */
SV *making_old(pTHX_ pinyon_reply *reply, uint32_t *flags); /* the old value, as it is stored */
/* To a request of a step, which is one of several for many keys. Its caller there says what went wrong. */
void making_replied(SV *object, size_t part, pinyon_reply *reply);
void making_leave(pTHX_ cache_handle *cache, pinyon_making *making); /* ends a caller wherever it is; its lease goes back */
/* From ttl to caller. */
void fill_terms(pTHX_ cache_handle *cache, pinyon_terms *terms, SV *self, SV **on_stack, SSize_t count);
void fill_made(pTHX_ pinyon_made *how, SV **on_stack); /* ttl, stale, whether it is stored */
extern const MGVTBL making_many_table;
pinyon_making_many *making_many_of(pTHX_ SV *object);
bool making_many_run(pTHX_ cache_handle *cache, SV *self, pinyon_making_many *making); /* whether values must be made */
void making_many_over(pTHX_ cache_handle *cache, SV *self, pinyon_reply *reply); /* dies if it failed as a whole */
SV *making_many_answer(pTHX_ cache_handle *cache, SV *self, pinyon_making_many *making, size_t key); /* NULL: left out */
void making_many_leave(pTHX_ cache_handle *cache, pinyon_making_many *making);

/* ==== compat.c: the clients in Pinyon::Compat ======================================================================== */
/* Pushes a command. False, with nothing done: that takes more than is done here. */
bool push_quick(pTHX_ SV *self, unsigned number, SV **given, SSize_t count);

/* ==== batches.c: commands whose replies are not awaited one by one =================================================== */
extern const MGVTBL batch_table;

pinyon_batch *batch_of(pTHX_ SV *object);
MAGIC *batch_magic(pTHX_ SV *object);
MAGIC *usable_batch(SV *object); /* NULL: this thread cannot use it now */
void batch_add(pTHX_ SV *object, call *one);
pinyon_error *batch_push(pTHX_ MAGIC *magic, call *one); /* adds it and sends it at once */
SV *batch_finish(pTHX_ SV *object); /* waits for all outcomes, and returns batch_failures */
SV *batch_failures(pTHX_ pinyon_batch *batch); /* what was not carried out: a list of [number, reason, error] */

/* ==== many_gets.c: reading many keys ================================================================================= */
/* Whether the library can have the bytes of keys where they are: no code of Perl's runs to find them. */
bool are_plain_keys(pTHX_ SV **keys, size_t count);
HV *get_plain_keys(pTHX_ SV *self, bool with_cas, SV **keys, size_t count, HV *failed); /* values by key, or with tokens */
wanted_keys *wanted_new(pTHX_ cache_handle *cache, SV **keys, size_t count); /* holds them */
void wanted_over(pTHX_ void *many);
void *place_wanted(void *context, size_t size, uint32_t flags);
/* The value of a key that was found, which needs Perl's care; NULL if there is a failure, or if it counts as missing. */
SV *wanted_apart(pTHX_ cache_handle *cache, SV *self, wanted_key *one, SV **failure);

/* ==== many_calls.c: a method for many keys at once =================================================================== */
/* The results by key. `common`, `tags`: a last argument, and tags, for all, or NULL. `order`, if any, receives the results in order. */
HV *run_many(pTHX_ SV *self, unsigned number, SV **items, size_t count, SV *common, SV *tags, HV *failed, AV *order);
/* The tags that follow the arrays of a method which stores, as tags => names: takes both off the items. NULL: there are none. */
SV *tags_of_many(pTHX_ unsigned number, SV **items, size_t *count);

/* ==== many_results.c: results by key, and what failed ================================================================ */
void make_room_in(pTHX_ HV *results, size_t count);
SV *own_copy(pTHX_ SV *value); /* that the caller may change, as it is in a hash */
void note_failure(pTHX_ failures *failures, const pinyon_error *error);
void note_unreadable(pTHX_ failures *failures, SV *key, SV *error); /* takes over what reading a value died of */
void throw_failures(pTHX_ const failures *failures);

/* ==== server_questions.c: questions without a key ================================================================== */
/* versions, stats, flush_all, clear_namespace, or invalidate_tags, whose tags are the value. */
void server_question(pTHX_ cache_handle *cache, pinyon_request *request, int number, SV *value, SV *delay);
SV *ask_servers(pTHX_ cache_handle *cache, SV *self, const pinyon_request *request);
SV *server_answers(pTHX_ pinyon_reply *reply, pinyon_verb verb); /* { server => value }, or => { name => value } */
SV *partial_error(pTHX_ pinyon_error *error, SV *results); /* with what the others answered; takes over both */
AV *servers_of(pTHX_ cache_handle *cache, SV *key);

/* ==== near.c: figures of the keys in memory ========================================================================== */
SV *near_metrics(pTHX_ const cache_handle *cache); /* a reference to a hash */

/* ==== waiting.c: blocking calls, and signals meanwhile =============================================================== */
extern bool exit_is_due; /* Perl code that converts a value has ended the program: it ends when the library returns */

XSPROTO(deliver_signals);
void begin_wait(pTHX_ waiting *wait);
void end_interrupted(pTHX_ waiting *wait) __attribute__noreturn__; /* after PINYON_INTERRUPTED: what the handler wanted */
/* Handlers of signals that came during DESTROY run after it. Perl does not let them die out of it, and Perl 5.40 runs them as
 * soon as a DESTROY in C returns. */
void handlers_after(pTHX_ SV *object);
void check_after_wait(pTHX_ cache_handle *cache, SV *self, waiting *wait, pinyon_status status); /* of many keys */
SV *run_call(pTHX_ cache_handle *cache, SV *self, call *one); /* as result_of; dies of a failure */
void throw_failed(pTHX_ cache_handle *cache, SV *self, pinyon_error *error) __attribute__noreturn__;

/* ==== events.c: events of clients ==================================================================================== */
void tell_events(pTHX_ SV *self); /* to the client's on_event, where it has one */
SV *next_event(pTHX_ cache_handle *cache); /* a hash, or NULL */
SV *event_fields(pTHX_ const pinyon_event *event);

/* ==== credentials.c: subs that return credentials ==================================================================== */
bool credentials_are_asked(void);
void answer_credentials(pTHX); /* has Perl answer all questions; what a sub dies of is the answer */
void leave_question(void *number, pinyon_credentials_question *question); /* of the library, perhaps in a thread of its own */
AV *questions_taken(pTHX); /* question and number of each */

/* ==== results.c: the reply to a call as what its method returns ====================================================== */
void *place_value(void *context, size_t size, uint32_t flags); /* in a string of Perl's */
SV *target_of_op(pTHX); /* what the op that calls has for its result, or NULL */
/* What is needed of a reply that stays as it is, so that nothing of it leaks if Perl dies. */
pinyon_reply settled_reply(pTHX_ call *one, pinyon_reply *reply);
void own_value(pTHX_ call *one, const pinyon_reply *reply); /* makes its value a string of Perl's */
/* For a status of 0 or above: a new reference; NULL for a miss. It may die: of a value that cannot be read. */
SV *result_of(pTHX_ cache_handle *cache, SV *self, call *one, const pinyon_reply *reply);
bool is_plain_value(pTHX_ cache_handle *cache, call *one, const pinyon_reply *reply); /* then result_of cannot die */
SV *pair_sv(pTHX_ SV *value, SV *other);

/* ==== methods.c: the methods on one key, and their requests ========================================================== */
extern call_method_of call_methods[]; /* by the numbers of methods */
extern const char *const    shown_arguments[]; /* by call_takes */

void load_methods(void); /* as the library lists them */
/* Defines a method for each that is chosen, which finds its number where that of an ALIAS is. `before`, `after`: what its full
 * name has before and after the name of the call. */
void     install_methods(pTHX_ const char *before, const char *after, methods_chosen chosen, XSUBADDR_t method);
/* The same with a function for each number. */
void     install_each(pTHX_ const char *before, const XSUBADDR_t *methods);
unsigned method_number(pTHX_ const char *name); /* for modules, which give it back */
/* Fills the request of a call, whose `request`, `room` and `left` are set. `given`: without the object, `self`. */
void prepare_call(pTHX_ cache_handle *cache, SV *self, call *one, unsigned number, SV **given, SSize_t count);
void prepare_give_back(pTHX_ cache_handle *cache, SV *self, lone_call *alone, SV *key, SV *token, bool stays);
bool is_prepared_safely(const cache_handle *cache, unsigned number, SV **given, SSize_t count); /* it cannot die */
void refuse_arguments(pTHX_ const call_method_of *method) __attribute__noreturn__;

/* ==== numbers.c: the numbers of pinyon.h that modules say ============================================================ */
void install_numbers(pTHX);

/* ==== value_reader.c: what is stored as Perl's values ================================================================ */
/* These take over `stored`, and may return it. */
SV *value_of(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags); /* NULL if it counts as missing */
SV *value_read(pTHX_ cache_handle *cache, SV *self, SV *stored, uint32_t flags);
SV *plain_value(pTHX_ cache_handle *cache, SV *stored, uint32_t flags); /* NULL: a reader is needed, which might die */
bool is_plain_stored(pTHX_ cache_handle *cache, SV *stored, uint32_t flags);
SV *read_all(pTHX_ pinyon_reader *reader, cache_handle *cache); /* a reader that has begun, which `cache` gets, or nobody */

/* ==== value_writer.c: Perl's values as what is stored ================================================================ */
void value_to_store(pTHX_ cache_handle *cache, SV *self, call *one, SV *value); /* into the request */
void value_alone(pTHX_ cache_handle *cache, SV *self, lone_call *alone, SV *value); /* into one that has nothing else */

/* ==== tags.c: tags of values ========================================================================================== */
/* A name, or an array of names; NULL for undef. They live until the statement ends, or FREETMPS. */
const pinyon_tags *tags_of(pTHX_ cache_handle *cache, SV *given);

/* ==== serializers.c: serializers that are written in Perl ============================================================ */
SV *dumped_by_perl(pTHX_ SV *self, SV *value, uint32_t *flags); /* a mortal */
SV *loaded_by_perl(pTHX_ SV *self, SV *stored, uint32_t flags);
SV *value_or_miss(pTHX_ SV *self, SV *stored, uint32_t flags, bool is_lease); /* NULL: unreadable, and counts as missing */
bool loads_by_perl(const cache_handle *cache); /* whether Perl code may load values */

/* ==== leases.c: who makes a value, and how a lease goes back ========================================================= */
void win_attach(pTHX_ SV *result, SV *client, const call *one, const pinyon_reply *reply); /* to a result that has won */
void lease_own(pTHX_ SV *lease, SV *client, SV *win); /* an object has the win now */
bool is_lease_left_open(pTHX_ SV *lease);
void lease_left(pTHX_ SV *lease);
void win_left(pTHX_ SV *win); /* one that has not become an object */

/* ==== arguments.c: arguments in Perl as the library takes them ======================================================= */
pinyon_bytes kept_bytes(pTHX_ call *one, SV *sv, const char *start, STRLEN size); /* stay where they are during the call */
int64_t ttl_of(pTHX_ SV *ttl, int64_t none, const char *name);
uint64_t count_of(pTHX_ SV *number, const char *name);
double seconds_of(pTHX_ SV *given, double none, const char *name);
double above_zero(pTHX_ SV *given, const char *name);
pinyon_bytes utf8_or_none(pTHX_ SV *given);
AV *array_of(pTHX_ SV *reference);
/* From arrays of the same length. The bytes belong to Perl's values, the options to a mortal. */
pinyon_option *options_of(pTHX_ SV *names, SV *values, size_t *count);

/* ==== cache.c: the handle of a Pinyon::Cache ========================================================================= */
extern const MGVTBL cache_table;

void cache_attach(pTHX_ SV *self, pinyon_client *client, unsigned form, bool tells);
cache_handle *cache_copy(pTHX_ const cache_handle *cache); /* another handle to the same client */
void cache_drop(cache_handle *cache);
void *spare_taken(cache_handle *cache, size_t *size); /* memory for a call about many keys */
void spare_given(cache_handle *cache, void *memory, size_t size);

/* ==== handles.c: what objects hold of the library ==================================================================== */
extern unsigned forks_so_far; /* of this process, and of those that it comes from */

void count_fork(void);
void attach_handle(pTHX_ SV *object, const MGVTBL *table, void *handle);
void *handle_of(pTHX_ SV *object, const MGVTBL *table, const char *what); /* dies without */
void throw_not(pTHX_ const char *what) __attribute__noreturn__;

/* Defines a table: `drop` is done with `handle` when its object goes, `clone` in a new thread of Perl's. */
#define HANDLE_TABLE(table, type, drop, clone)          \
    static int table##_free(pTHX_ SV *sv, MAGIC *magic) \
    {                                                   \
        type *handle = (type *)magic->mg_ptr;           \
        PERL_UNUSED_VAR(sv);                            \
        magic->mg_ptr = NULL;                           \
        if (handle)                                     \
            drop;                                       \
        return 0;                                       \
    }                                                   \
    const MGVTBL table = {NULL, NULL, NULL, NULL, table##_free, NULL, clone, NULL}

int not_cloned(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters);
void keep_object(pTHX_ SV *object); /* for the rest of the call: Perl code that runs in it may let go of the caller's */

/* ==== perl_code.c: Perl code that C calls ============================================================================ */
/* It runs on a stack of its own. A `last` or `next` in it then fails there, and does not leave the frames of C. What it
 * returns is taken from that stack before the code is over.
 *
 * The scope restores which op Perl is at, and must be over when a method of Coro's client returns: Coro lets it go on from
 * there. */
#define PERL_CODE_BEGINS          \
    STMT_START                    \
    {                             \
        ENTER;                    \
        PUSHSTACKi(PERLSI_MAGIC); \
    }                             \
    STMT_END
#define PERL_CODE_ENDS \
    STMT_START         \
    {                  \
        POPSTACK;      \
        LEAVE;         \
    }                  \
    STMT_END

/* What a function of Perl returns last, or with G_METHOD a method of the first argument: a new reference, or NULL. */
SV *perl_result(pTHX_ const char *name, I32 how, SV *const *arguments, SSize_t count);
void tell_perl(pTHX_ const char *method, SV *object, SV *what); /* calls a method; `what` may be NULL */
/* What `make` makes of `about`: a new reference, or NULL. `failure` becomes what it dies of, or NULL. */
SV *made_apart(pTHX_ SV *(*make)(pTHX_ void *about), void *about, SV **failure);
XSPROTO(make_apart);

/* ==== errors.c: errors as objects ==================================================================================== */
const COP *users_place(pTHX); /* where the user has called Pinyon */
SV *text_sv(pTHX_ const char *text); /* of the library: always UTF-8 */
SV *class_of_kind(pTHX_ pinyon_kind kind);
SV *error_sv(pTHX_ pinyon_kind kind, SV *message, pinyon_sent sent, const char *server, const char *command);
SV *error_object(pTHX_ const pinyon_error *error);
SV *error_object_taken(pTHX_ pinyon_error *error); /* frees the error */
void die_unheard(pTHX); /* until the end of the scope, nothing tells $SIG{__DIE__} of what dies: Pinyon catches it */
void throw_mortal(pTHX_ SV *object) __attribute__noreturn__;
void throw_object(pTHX_ SV *object) __attribute__noreturn__;
void throw_error(pTHX_ pinyon_error *error) __attribute__noreturn__;
void throw_kind(pTHX_ pinyon_kind kind, SV *message) __attribute__noreturn__;
void throw_usage(pTHX_ SV *message) __attribute__noreturn__;

/* ==== Inline, because each call of a method does it ================================================================== */
/* The handle of an object; NULL if it has none (any more). */
PERL_STATIC_INLINE void *attached_handle(SV *object, const MGVTBL *table)
{
    SV    *inner;
    MAGIC *magic;
    if (!SvROK(object))
        return NULL;
    inner = SvRV(object);
    magic = SvTYPE(inner) >= SVt_PVMG ? SvMAGIC(inner) : NULL;
    while (magic && magic->mg_virtual != table)
        magic = magic->mg_moremagic;
    return magic ? magic->mg_ptr : NULL;
}

PERL_STATIC_INLINE cache_handle *cache_of(pTHX_ SV *object)
{
    cache_handle *cache = (cache_handle *)attached_handle(object, &cache_table);
    if (!cache)
        throw_not(aTHX_ "a Pinyon::Cache that was made by new");
    return cache;
}

/* A handler of signals may end the object whose call it interrupts. */
PERL_STATIC_INLINE void cache_enter(cache_handle *cache) { cache->users++; }
PERL_STATIC_INLINE void cache_leave(cache_handle *cache)
{
    if (!--cache->users && cache->is_gone)
        cache_drop(cache);
}

/* Copies the arguments of a call off Perl's stack, which may move. */
PERL_STATIC_INLINE void copy_given(SV **given, SV *const *from, SSize_t count)
{
    SSize_t index;
    for (index = 0; index < count && index < MOST_ARGUMENTS; index++)
        given[index] = from[index];
}

PERL_STATIC_INLINE void prepare_alone(pTHX_ cache_handle *cache, SV *self, lone_call *alone, unsigned number, SV **given,
                                      SSize_t count)
{
    alone->one.request = &alone->request;
    alone->one.room    = alone->room;
    alone->one.left    = sizeof alone->room;
    prepare_call(aTHX_ cache, self, &alone->one, number, given, count);
}

/* The library fills all else, and looks at these before. */
PERL_STATIC_INLINE void begin_reply(pinyon_reply *reply)
{
    reply->size        = sizeof *reply;
    reply->value.start = NULL;
    reply->error       = NULL;
    reply->answers     = NULL;
    reply->lock        = NULL;
    reply->memory      = NULL;
}

#endif
