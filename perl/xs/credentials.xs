MODULE = Pinyon    PACKAGE = Pinyon::Credentials

SV *
_source(number)
    UV number
  CODE:
    {
        pinyon_credentials_source source = {sizeof source};
        source.ask     = leave_question;
        source.context = INT2PTR(void *, number);
        RETVAL = newSVpvn((const char *)&source, sizeof source);
    }
  OUTPUT:
    RETVAL

void
_take()
  PPCODE:
    {
        AV *taken = questions_taken(aTHX);
        RETURN_ITEMS(taken);
    }

void
_leave(question, number)
    UV question
    UV number
  PPCODE:
    leave_question(INT2PTR(void *, number), INT2PTR(pinyon_credentials_question *, question));
    XSRETURN(0);

void
_answered(question, own, username, password, lifetime)
    UV question
    SV *own
    SV *username
    SV *password
    NV lifetime
  PPCODE:
    {
        pinyon_credentials credentials = {sizeof credentials};
        credentials.own      = utf8_or_none(aTHX_ own);
        credentials.username = utf8_or_none(aTHX_ username);
        credentials.password = utf8_or_none(aTHX_ password);
        credentials.lifetime = lifetime;
        pinyon_credentials_answer(INT2PTR(pinyon_credentials_question *, question), &credentials);
        XSRETURN(0);
    }

void
_failed(question, why)
    UV question
    SV *why
  PPCODE:
    pinyon_credentials_fail(INT2PTR(pinyon_credentials_question *, question), utf8_or_none(aTHX_ why));
    XSRETURN(0);
