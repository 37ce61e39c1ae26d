/* The program whose instructions are counted: `instructions SOCKET`. `callgrind.py` describes its marks. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"

#define MORE 3
#define ROUNDS 5
#define KEYS 100
#define SIZE 36

static char   texts[KEYS][SIZE + 1];
static bytes  keys[KEYS];
static bytes  value = {"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", SIZE};
static client *connected, *near;

static size_t get(size_t times)
{
    return repeat_get(connected, keys[0], SIZE, times);
}

static size_t set(size_t times)
{
    return repeat_set(connected, keys[0], value, times);
}

static size_t get_near(size_t times)
{
    return repeat_get(near, keys[0], SIZE, times);
}

static size_t get_many(size_t times)
{
    return repeat_get_many(connected, keys, KEYS, SIZE, times) / KEYS;
}

static void run(size_t (*operation)(size_t times), size_t times)
{
    if (operation(times) == times) return;
    fprintf(stderr, "a reply was wrong\n");
    exit(1);
}

/* Does an operation few times, and more often, and prints its name. */
static void count(const char *name, size_t (*operation)(size_t times), size_t few)
{
    run(operation, few);
    for (int round = 0; round < ROUNDS; round++) {
        getppid();
        run(operation, few);
        getppid();
        run(operation, few * MORE);
    }
    getppid();
    printf("%s\t%zu\n", name, few * (MORE - 1));
}

int main(int count_of_arguments, char **arguments)
{
    connected = count_of_arguments == 2 ? client_open(arguments[1], 0) : NULL;
    near      = connected ? client_open_near(arguments[1], 0) : NULL;
    if (!near) {
        fprintf(stderr, "usage: instructions SOCKET\n");
        return 2;
    }
    for (int at = 0; at < KEYS; at++) {
        snprintf(texts[at], sizeof texts[at], "%0*d", SIZE, at);
        keys[at] = (bytes){texts[at], SIZE};
        if (!client_set(connected, keys[at], value)) return 1;
    }
    count("c:get", get, 100);
    count("c:set", set, 100);
    count("c:get_many:100", get_many, 10);
    count("c:near:get", get_near, 100);
    client_close(near);
    client_close(connected);
    return 0;
}
