/* The library's errors as objects of Pinyon::Error, which know the caller's file and line. */

#include "pinyon_perl.h"

static bool is_ours(pTHX_ const COP *place)
{
    const char *package = CopSTASHPV(place);
    return package && strnEQ(package, "Pinyon", 6) && (package[6] == '\0' || package[6] == ':');
}

/* Where the user has called Pinyon. */
const COP *users_place(pTHX)
{
    const COP *place = PL_curcop;
    I32        level;
    for (level = 0; is_ours(aTHX_ place); level++) {
        const PERL_CONTEXT *context = caller_cx(level, NULL);
        if (!context)
            break;
        place = context->blk_oldcop;
    }
    return place;
}

static const char *const sent_names[] = {"no", "maybe", "yes"};

/* A text of the library's: always UTF-8. */
SV *text_sv(pTHX_ const char *text)
{
    SV *sv = newSVpv(text ? text : "", 0);
    SvUTF8_on(sv);
    return sv;
}

/* "ConnectError" is Pinyon::Error::Connect. */
SV *class_of_kind(pTHX_ pinyon_kind kind)
{
    const char *name = pinyon_kind_name(kind);
    STRLEN      size = name ? strlen(name) : 0;
    if (!name || kind == PINYON_E_ERROR)
        return newSVpvs("Pinyon::Error");
    if (size > 5 && strEQ(name + size - 5, "Error"))
        size -= 5;
    return newSVpvf("Pinyon::Error::%.*s", (int)size, name);
}

SV *error_sv(pTHX_ pinyon_kind kind, SV *message, pinyon_sent sent, const char *server, const char *command)
{
    HV        *fields = newHV();
    SV        *error  = newRV_noinc((SV *)fields);
    SV        *class  = class_of_kind(aTHX_ kind);
    const COP *place  = users_place(aTHX);
    const char *name  = pinyon_kind_name(kind);

    hv_stores(fields, "kind", newSVpv(name ? name : "Error", 0));
    hv_stores(fields, "message", message);
    hv_stores(fields, "sent", newSVpv(sent_names[sent], 0));
    hv_stores(fields, "server", server && *server ? text_sv(aTHX_ server) : newSV(0));
    hv_stores(fields, "command", command && *command ? newSVpv(command, 0) : newSV(0));
    hv_stores(fields, "file", newSVpv(CopFILE(place) ? CopFILE(place) : "-", 0));
    hv_stores(fields, "line", newSVuv(CopLINE(place)));
    sv_bless(error, gv_stashsv(class, GV_ADD));
    SvREFCNT_dec(class);
    return error;
}

/* The error as an object. */
SV *error_object(pTHX_ const pinyon_error *error)
{
    pinyon_kind kind   = pinyon_error_kind(error);
    SV         *object = error_sv(aTHX_ kind, text_sv(aTHX_ pinyon_error_message(error)), pinyon_error_sent(error),
                                  pinyon_error_server(error), pinyon_error_command(error));
    if (kind == PINYON_E_DEADLOCK) {
        AV         *cycle = newAV();
        const char *holder;
        size_t      index;
        for (index = 0; (holder = pinyon_error_holder(error, index)); index++)
            av_push(cycle, text_sv(aTHX_ holder));
        hv_stores((HV *)SvRV(object), "cycle", newRV_noinc((SV *)cycle));
    }
    if (pinyon_error_is_outage(error))
        hv_stores((HV *)SvRV(object), "is_outage", newSViv(1));
    return object;
}

SV *error_object_taken(pTHX_ pinyon_error *error)
{
    SV *object = error_object(aTHX_ error);
    pinyon_error_free(error);
    return object;
}

/* Whether code of Pinyon's own catches what dies here, before the user's does. */
static bool is_caught_here(pTHX)
{
    const COP *place = PL_curcop;
    I32        level;
    for (level = 0; is_ours(aTHX_ place); level++) {
        const PERL_CONTEXT *context = caller_cx(level, NULL);
        if (!context)
            return false;
        if (CxTYPE(context) == CXt_EVAL)
            return true;
        place = context->blk_oldcop;
    }
    return false;
}

/* Until the end of the scope, nothing tells the program's $SIG{__DIE__} of what dies: Pinyon catches it. */
void die_unheard(pTHX)
{
    SAVESPTR(PL_diehook);
    PL_diehook = NULL;
}

/* Dies of a mortal. The program's handler hears only of what reaches the program. */
void throw_mortal(pTHX_ SV *object)
{
    if (PL_diehook && is_caught_here(aTHX))
        die_unheard(aTHX);
    croak_sv(object);
}

void throw_object(pTHX_ SV *object)
{
    throw_mortal(aTHX_ sv_2mortal(object));
}

void throw_error(pTHX_ pinyon_error *error)
{
    throw_object(aTHX_ error_object_taken(aTHX_ error));
}

void throw_kind(pTHX_ pinyon_kind kind, SV *message)
{
    throw_object(aTHX_ error_sv(aTHX_ kind, message, PINYON_SENT_NO, NULL, NULL));
}

void throw_usage(pTHX_ SV *message)
{
    throw_kind(aTHX_ PINYON_E_USAGE, message);
}
