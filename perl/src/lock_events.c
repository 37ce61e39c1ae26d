/* What happens to locks by itself: events of their servers, and losses. */

#include "pinyon_perl.h"

/* An event of the servers as a hash; NULL: none. Losses are seen by the locks themselves, in the thread that has them. */
static SV *next_event_of_locks(pTHX_ locks_handle *locks)
{
    pinyon_note *note;
    while ((note = pinyon_next_note(locks->locks))) {
        SV *event = note->event ? event_fields(aTHX_ note->event) : NULL;
        pinyon_note_free(note);
        if (event)
            return event;
    }
    return NULL;
}

bool notes_are_due(pTHX_ locks_handle *locks)
{
    if (!locks->event)
        locks->event = next_event_of_locks(aTHX_ locks);
    return locks->event || locks->listeners || credentials_are_asked();
}

/* Tells the locks that are lost and are to tell of it, whoever took the note. Each may let go of others. */
static void tell_losses(pTHX_ const locks_handle *locks)
{
    AV          *lost;
    lock_handle *held;
    SSize_t      index;
    ENTER;
    SAVETMPS;
    lost = (AV *)sv_2mortal((SV *)newAV());
    for (held = locks->acquired; held; held = held->after) {
        if (held->listens && held->lock && pinyon_lock_loss(held->lock))
            av_push(lost, newRV_inc(held->object));
    }
    for (index = 0; index <= av_len(lost); index++)
        tell_perl(aTHX_ "_lost", AvARRAY(lost)[index], NULL);
    FREETMPS;
    LEAVE;
}

/* Reports events and losses. Runs Perl code. */
static void tell_notes(pTHX_ locks_handle *locks, SV *client)
{
    if (credentials_are_asked())
        answer_credentials(aTHX);
    while (locks->event) {
        SV *event    = sv_2mortal(locks->event);
        locks->event = NULL;
        tell_perl(aTHX_ "_tell_event", sv_2mortal(newRV_inc(client)), event);
        locks->event = next_event_of_locks(aTHX_ locks);
    }
    if (locks->listeners)
        tell_losses(aTHX_ locks);
}

void take_notes(pTHX_ locks_handle *locks, SV *client)
{
    if (UNLIKELY(notes_are_due(aTHX_ locks)))
        tell_notes(aTHX_ locks, client);
}

void take_notes_of_lock(pTHX_ SV *object, const lock_handle *held)
{
    keep_object(aTHX_ object);
    take_notes(aTHX_ locks_of_lock(aTHX_ held), held->client);
}

void listen_for_loss(pTHX_ lock_handle *held)
{
    if (held->listens)
        return;
    locks_of_lock(aTHX_ held)->listeners++;
    held->listens = true;
}

void listen_no_more(lock_handle *held)
{
    if (held->listens && held->of)
        held->of->listeners--;
    held->listens = false;
}
