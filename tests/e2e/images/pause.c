/* The first process of each pod: holds the pod's namespaces and collects processes whose parents are gone. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }

static void collect(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction ending = {.sa_handler = end}, collecting = {.sa_handler = collect, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGINT, &ending, NULL) || sigaction(SIGTERM, &ending, NULL) || sigaction(SIGCHLD, &collecting, NULL))
        return 1;
    for (;;)
        pause();
}
