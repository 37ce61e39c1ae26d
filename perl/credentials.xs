MODULE = Pinyon    PACKAGE = Pinyon::Credentials

SV *
_source(number)
    UV number
  CODE:
    {
        pinyon_credentials_source source;
        Zero(&source, 1, pinyon_credentials_source);
        source.size    = sizeof source;
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
        left_question *left = __atomic_exchange_n(&questions_left, NULL, __ATOMIC_ACQUIRE);
        while (left) {
            left_question *next = left->next;
            EXTEND(SP, 2);
            mPUSHu(PTR2UV(left->question));
            mPUSHu(left->number);
            free(left);
            left = next;
        }
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
        pinyon_credentials credentials;
        Zero(&credentials, 1, pinyon_credentials);
        credentials.size     = sizeof credentials;
        credentials.own      = bytes_or_none(aTHX_ own);
        credentials.username = bytes_or_none(aTHX_ username);
        credentials.password = bytes_or_none(aTHX_ password);
        credentials.lifetime = lifetime;
        pinyon_credentials_answer(INT2PTR(pinyon_credentials_question *, question), &credentials);
        XSRETURN(0);
    }

void
_failed(question, why)
    UV question
    SV *why
  PPCODE:
    pinyon_credentials_fail(INT2PTR(pinyon_credentials_question *, question), bytes_or_none(aTHX_ why));
    XSRETURN(0);
