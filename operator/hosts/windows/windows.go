// Package windows decides whether a time at which machines may be begun is open, and when the next
// one opens.
//
// A window has the form of the servers' maintenance_windows: a cron expression of five fields, a
// duration and a time zone, and means the same there and here, at both changes of the clocks too. What
// happens outside of one is left to callers.
package windows

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // so that a time zone means the same wherever the operator runs

	"github.com/robfig/cron/v3"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// window is one that can be read.
type window struct {
	schedule cron.Schedule
	zone     *time.Location
	duration time.Duration
}

// Check reports everything that is wrong with windows, by their index; nil: nothing is.
func Check(all []hostsv1.Window) error {
	var errs []error
	for i, w := range all {
		if _, err := read(w); err != nil {
			errs = append(errs, fmt.Errorf("windows[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Open says whether one of the windows is open at a moment, and if not, when the next one opens; zero:
// none ever does. Without windows it is always open. A window that Check finds fault with is never open.
func Open(all []hostsv1.Window, at time.Time) (open bool, next time.Time) {
	if len(all) == 0 {
		return true, time.Time{}
	}
	for _, one := range all {
		w, err := read(one)
		if err != nil {
			continue
		}
		if w.open(at) {
			return true, time.Time{}
		}
		if opens := w.schedule.Next(at.In(w.zone)); !opens.IsZero() && (next.IsZero() || opens.Before(next)) {
			next = opens
		}
	}
	return false, next
}

// open is whether the last opening is no longer ago than the window is open for.
func (w window) open(at time.Time) bool {
	opening := w.schedule.Next(at.In(w.zone).Add(-w.duration))
	return !opening.IsZero() && !opening.After(at)
}

func read(w hostsv1.Window) (window, error) {
	name := w.Timezone
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return window{}, fmt.Errorf("timezone: unknown time zone %q; an IANA name, such as Europe/Berlin, is one", name)
	}
	duration, err := time.ParseDuration(string(w.Duration))
	if err != nil || duration <= 0 {
		return window{}, fmt.Errorf("duration: %q must be above 0, such as 4h", w.Duration)
	}
	// The parser takes other things than the five fields, some of them with a panic.
	if strings.ContainsAny(w.Cron, "=@") {
		return window{}, fmt.Errorf("cron: %q must be five fields: minute, hour, day of month, month, day of week", w.Cron)
	}
	schedule, err := parser.Parse(w.Cron)
	if err != nil {
		return window{}, fmt.Errorf("cron: %q must be five fields: minute, hour, day of month, month, day of week: %w", w.Cron, err)
	}
	if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, zone)).IsZero() {
		return window{}, fmt.Errorf("cron: %q never comes; choose a day that exists", w.Cron)
	}
	return window{schedule, zone, duration}, nil
}
