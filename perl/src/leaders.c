/* Candidates for the leadership of a name: what a Pinyon::Leader asks for its next step. */

#include "pinyon_perl.h"

HANDLE_TABLE(candidate_table, pinyon_candidate, pinyon_candidate_free(handle), not_cloned);

pinyon_candidate *candidate_of(pTHX_ SV *object)
{
    return (pinyon_candidate *)handle_of(aTHX_ object, &candidate_table, "a candidate");
}

SV *new_candidate(pTHX_ SV *name)
{
    pinyon_error     *error = NULL;
    SV               *object;
    pinyon_bytes      bytes;
    pinyon_candidate *candidate;
    if (!SvOK(name) || (SvROK(name) && !SvAMAGIC(name)))
        throw_kind(aTHX_ PINYON_E_UNSUPPORTED_TYPE, newSVpvs("the name of a leader is a string"));
    name        = name_kept(aTHX_ name);
    bytes.start = SvPV(name, bytes.size);
    candidate   = pinyon_candidate_new(bytes, &error);
    if (!candidate)
        throw_error(aTHX_ error);
    object = newRV_noinc(newSV(0));
    attach_handle(aTHX_ object, &candidate_table, candidate);
    return object;
}

const char *next_step(pTHX_ SV *object, SV *report, SV *about, SV **with)
{
    pinyon_candidate    *candidate = candidate_of(aTHX_ object);
    pinyon_error        *error     = NULL;
    pinyon_bytes         why       = {NULL, 0};
    uint64_t             token     = 0;
    pinyon_leader_report what;
    pinyon_leader_step   step;
    if (!pinyon_leader_report_named(SvPV_nolen(report), &what))
        throw_kind(aTHX_ PINYON_E_USAGE, newSVpvf("a candidate does not understand the report %" SVf, SVfARG(report)));
    if (what == PINYON_LEADER_GRANTED)
        token = (uint64_t)SvUV(about);
    else if (SvOK(about))
        why.start = SvPVutf8(about, why.size);
    step = pinyon_candidate_next(candidate, what, token, why, &error);
    if (error)
        throw_error(aTHX_ error);
    switch (step) {
    case PINYON_LEADER_ELECTED:
    case PINYON_LEADER_LOST:
        *with = newSVuv((UV)pinyon_candidate_step_token(candidate));
        break;
    case PINYON_LEADER_LEAD:
    case PINYON_LEADER_PAUSE:
        *with = newSVnv(pinyon_candidate_step_seconds(candidate));
        break;
    case PINYON_LEADER_WARN:
        *with = newSVpv(pinyon_candidate_step_line(candidate), 0);
        SvUTF8_on(*with);
        break;
    default:
        *with = NULL;
    }
    return pinyon_leader_step_name(step);
}
