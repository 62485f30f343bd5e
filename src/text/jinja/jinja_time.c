/* jinja_time.c - strftime with English names, for a time that the caller gives: the library asks no
 * clock and no time zone. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja_text.h"

typedef struct civil {
    int64_t year;
    int month, day, hour, minute, second, weekday, yearday; /* month 1.., weekday 0 = Sunday */
} civil;

static civil civil_of(int64_t s) {
    int64_t days = s / 86400;
    int64_t rest = s % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    civil t = {.hour = (int)(rest / 3600),
               .minute = (int)(rest / 60 % 60),
               .second = (int)(rest % 60),
               .weekday = (int)(((days % 7) + 11) % 7)};
    /* The year counted from March: leap days come last. 400 years have 146097 days. */
    const int64_t shifted = days + 719468;
    const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const int64_t of_era = shifted - era * 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153;
    t.day = (int)(of_year - (153 * month + 2) / 5 + 1);
    t.month = (int)(month < 10 ? month + 3 : month - 9);
    t.year = year + era * 400 + (t.month <= 2);
    const bool leap = (t.year % 4 == 0 && t.year % 100 != 0) || t.year % 400 == 0;
    t.yearday = (int)(t.month > 2 ? of_year + 59 + leap : of_year - 306) + 1;
    return t;
}

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* A number of `width` digits; with '-' in the form without leading zeros. */
static int number(char *out, size_t size, int64_t value, int width, bool bare) {
    return bare ? snprintf(out, size, "%lld", (long long)value)
                : snprintf(out, size, "%0*lld", width, (long long)value);
}

/* One conversion that is not made of others; false: unknown. */
static bool one(const civil *t, char c, bool bare, char out[64]) {
    const int hour12 = t->hour % 12 == 0 ? 12 : t->hour % 12;
    switch (c) {
    case 'Y':
        return number(out, 64, t->year, 4, bare) > 0;
    case 'y':
        return number(out, 64, t->year % 100, 2, bare) > 0;
    case 'm':
        return number(out, 64, t->month, 2, bare) > 0;
    case 'd':
        return number(out, 64, t->day, 2, bare) > 0;
    case 'e':
        return snprintf(out, 64, bare ? "%d" : "%2d", t->day) > 0;
    case 'H':
        return number(out, 64, t->hour, 2, bare) > 0;
    case 'I':
        return number(out, 64, hour12, 2, bare) > 0;
    case 'M':
        return number(out, 64, t->minute, 2, bare) > 0;
    case 'S':
        return number(out, 64, t->second, 2, bare) > 0;
    case 'j':
        return number(out, 64, t->yearday, 3, bare) > 0;
    case 'w':
        return number(out, 64, t->weekday, 1, bare) > 0;
    case 'u':
        return number(out, 64, t->weekday == 0 ? 7 : t->weekday, 1, bare) > 0;
    case 'B':
        return snprintf(out, 64, "%s", months[t->month - 1]) > 0;
    case 'b':
    case 'h':
        return snprintf(out, 64, "%.3s", months[t->month - 1]) > 0;
    case 'A':
        return snprintf(out, 64, "%s", days[t->weekday]) > 0;
    case 'a':
        return snprintf(out, 64, "%.3s", days[t->weekday]) > 0;
    case 'p':
        return snprintf(out, 64, "%s", t->hour < 12 ? "AM" : "PM") > 0;
    case 'F':
        return snprintf(out, 64, "%04lld-%02d-%02d", (long long)t->year, t->month, t->day) > 0;
    case 'T':
        return snprintf(out, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second) > 0;
    case 'R':
        return snprintf(out, 64, "%02d:%02d", t->hour, t->minute) > 0;
    case 'D':
    case 'x':
        return snprintf(out, 64, "%02d/%02d/%02d", t->month, t->day, (int)(t->year % 100)) > 0;
    case 'X':
        return snprintf(out, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second) > 0;
    case 'c':
        return snprintf(out, 64, "%.3s %.3s %2d %02d:%02d:%02d %lld", days[t->weekday],
                        months[t->month - 1], t->day, t->hour, t->minute, t->second,
                        (long long)t->year) > 0;
    case 'n':
        return snprintf(out, 64, "\n") > 0;
    case 't':
        return snprintf(out, 64, "\t") > 0;
    case '%':
        return snprintf(out, 64, "%%") > 0;
    default:
        return false;
    }
}

const lk_jstring *lk_jtext_time(lk_jvm *vm, const lk_jstring *form, int64_t now_s) {
    const civil t = civil_of(now_s);
    lk_jbuild build;
    lk_jbuild_init(&build, &vm->heap);
    for (size_t i = 0; i < form->n;) {
        char text[64];
        if (form->bytes[i] != '%') {
            const size_t start = i;
            while (i < form->n && form->bytes[i] != '%') {
                i++;
            }
            (void)lk_jbuild_part(&build, form, start, i);
            continue;
        }
        const bool bare = i + 1 < form->n && form->bytes[i + 1] == '-';
        const size_t at = i + 1 + bare;
        if (at >= form->n || !one(&t, (char)form->bytes[at], bare, text)) {
            (void)lk_jfail(vm, "strftime_now: a conversion that is not supported at '%.*s'",
                           (int)(form->n - i < 8 ? form->n - i : 8), (const char *)form->bytes + i);
            return NULL;
        }
        (void)lk_jbuild_text(&build, text);
        i = at + 1;
    }
    return lk_jbuild_finish(&build);
}
