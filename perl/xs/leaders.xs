MODULE = Pinyon    PACKAGE = Pinyon::Candidate

SV *
_made(name)
    SV *name
  CODE:
    RETVAL = new_candidate(aTHX_ name);
  OUTPUT:
    RETVAL

void
_next(self, report, about)
    SV *self
    SV *report
    SV *about
  PPCODE:
    {
        SV         *with = NULL;
        const char *step = next_step(aTHX_ self, report, about, &with);
        XPUSHs(sv_2mortal(newSVpv(step, 0)));
        if (with)
            XPUSHs(sv_2mortal(with));
    }

bool
_resign(self)
    SV *self
  CODE:
    RETVAL = pinyon_candidate_resign(candidate_of(aTHX_ self));
  OUTPUT:
    RETVAL

void
_stop(self)
    SV *self
  PPCODE:
    pinyon_candidate_stop(candidate_of(aTHX_ self));
    XSRETURN(0);

bool
_is_stopping(self)
    SV *self
  CODE:
    RETVAL = pinyon_candidate_is_stopping(candidate_of(aTHX_ self));
  OUTPUT:
    RETVAL

UV
_token(self)
    SV *self
  CODE:
    RETVAL = (UV)pinyon_candidate_token(candidate_of(aTHX_ self));
  OUTPUT:
    RETVAL

const char *
_state(self)
    SV *self
  CODE:
    RETVAL = pinyon_candidate_state(candidate_of(aTHX_ self));
  OUTPUT:
    RETVAL
