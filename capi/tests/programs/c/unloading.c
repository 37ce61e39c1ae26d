/* A program that opens the library by its path, and closes it, as servers do with their modules each time they read their
 * configuration anew: the library stays, and with it what it has made once for all. */
#include "check.h"
#include <dlfcn.h>

typedef bool (*command_at)(size_t index, pinyon_command *command);

static void *opened(const char *path, int flags)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
}

int main(int count, char **arguments)
{
    const char *name = NULL;
    CHECK(count == 2 && !opened(arguments[1], RTLD_NOLOAD));
    for (int round = 0; round < 2; round++) {
        pinyon_command command = {sizeof command};
        void          *library = opened(arguments[1], 0);
        CHECK(library);
        command_at at;
        *(void **)&at = dlsym(library, "pinyon_command_at");
        CHECK(at && at(0, &command));
        CHECK(!name || command.name == name);
        name = command.name;
        CHECK(!dlclose(library));
        CHECK(opened(arguments[1], RTLD_NOLOAD));
        CHECK(*name);
    }
    return 0;
}
