/* lk/lk.h - all of the public API of Lockstep. */
#ifndef LK_LK_H
#define LK_LK_H

#include "lk/audio.h"
#include "lk/base.h"
#include "lk/chat.h"
#include "lk/chat_parser.h"
#include "lk/context.h"
#include "lk/device.h"
#include "lk/engine.h"
#include "lk/gguf.h"
#include "lk/grammar.h"
#include "lk/machine.h"
#include "lk/model.h"
#include "lk/projector.h"
#include "lk/quantize.h"
#include "lk/random_model.h"
#include "lk/sampler.h"
#include "lk/tokenizer.h"

#endif
