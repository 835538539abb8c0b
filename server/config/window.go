package config

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // so that a time zone means the same on every box

	"github.com/robfig/cron/v3"

	"nstance.dev/server/config/jsonc"
)

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// schedule reads the window's cron in its time zone.
func (w MaintenanceWindow) schedule() (cron.Schedule, *time.Location, error) {
	zone := w.Timezone
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, nil, errors.New("unknown time zone " + quoted(zone))
	}
	// The parser takes other things than the five fields, some of them with a panic.
	if strings.ContainsAny(w.Cron, "=@") {
		return nil, nil, errors.New(quoted(w.Cron) + " is not a cron expression")
	}
	schedule, err := cronParser.Parse(w.Cron)
	if err != nil {
		return nil, nil, errors.New(quoted(w.Cron) + " is not a cron expression: " + shorten(err.Error()))
	}
	return schedule, location, nil
}

// Open says whether the window is open at a moment. A window that Load would
// refuse is never open.
func (w MaintenanceWindow) Open(at time.Time) bool {
	schedule, location, err := w.schedule()
	if err != nil {
		return false
	}
	opening := schedule.Next(at.In(location).Add(-w.Duration.Std()))
	return !opening.IsZero() && !opening.After(at)
}

// OpenWindow says whether one of the windows is open at a moment, and if not, when
// the next one opens; zero: none ever does. Without windows it is always open.
func OpenWindow(windows []MaintenanceWindow, at time.Time) (open bool, next time.Time) {
	if len(windows) == 0 {
		return true, time.Time{}
	}
	for _, w := range windows {
		if w.Open(at) {
			return true, time.Time{}
		}
		schedule, location, err := w.schedule()
		if err != nil {
			continue
		}
		opens := schedule.Next(at.In(location))
		if !opens.IsZero() && (next.IsZero() || opens.Before(next)) {
			next = opens
		}
	}
	return false, next
}

func (c *checker) windows(path jsonc.Path, windows []MaintenanceWindow) {
	for i, w := range windows {
		p := path.Index(i)
		if w.Duration <= 0 {
			c.add(p.Key("duration"), "required, above 0", `how long the window stays open, such as "4h"`)
		}
		schedule, location, err := w.schedule()
		switch {
		case err != nil && location == nil && strings.HasPrefix(err.Error(), "unknown time zone"):
			c.add(p.Key("timezone"), err.Error(), `an IANA name, such as "Europe/Berlin"`)
		case err != nil:
			c.add(p.Key("cron"), err.Error(), `five fields: minute, hour, day of month, month, day of week, such as "0 2 * * sat"`)
		case schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, location)).IsZero():
			c.add(p.Key("cron"), quoted(w.Cron)+" never comes", "choose a day that exists")
		}
	}
}
