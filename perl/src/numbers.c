#include "pinyon_perl.h"

/* The numbers of pinyon.h that modules in Perl say, as constants of theirs. The names are those of the header. */
#define OF(package, before, name) { "Pinyon::" package, #name, PINYON_##before##name }

static const struct {
    const char *package;
    const char *name;
    IV          number;
} numbers[] = {
    OF("Lock", , RELEASE),
    OF("Lock", , EXTEND),
    OF("Lock", , PARK),
    OF("Lock", , NOTIFY),
    OF("Lock", , HAND_OVER),
    OF("Lock", , UPGRADE),
    OF("Lock", , DOWNGRADE),
    OF("Lock", , LOSS_RELEASED),
    OF("Loop::Making", STEP_, ASK),
    OF("Loop::Making", STEP_, FOLLOW),
    OF("Loop::Making", STEP_, MAKE),
    OF("Loop::Making", STEP_, MAKE_WITHIN),
    OF("Loop::Making", STEP_, OVER),
    OF("Loop::Making", STEP_, RETURN_OLD),
};

void install_numbers(pTHX)
{
    size_t each;
    for (each = 0; each < C_ARRAY_LENGTH(numbers); each++)
        newCONSTSUB(gv_stashpv(numbers[each].package, GV_ADD), numbers[each].name, newSViv(numbers[each].number));
}
