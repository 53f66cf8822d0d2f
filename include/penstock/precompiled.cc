#include "penstock/precompiled.h"
