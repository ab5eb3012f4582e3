/* Zombies, and the end of everything. */
#ifndef SANDBOXRUN_REAP_H
#define SANDBOXRUN_REAP_H

#include "state.h"

/* Reaps zombies. Notes how the command's first process ended. */
void reap(struct init *init);
/* Kills whatever is left, and returns how many. Zombies that were there before do not count. */
uint64_t kill_rest(struct init *init);

#endif
