package document

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // so that a time zone means the same on every box

	"github.com/robfig/cron/v3"

	"nstance.dev/server/config/jsonc"
)

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Schedule reads the window's cron in its time zone.
func (w MaintenanceWindow) Schedule() (cron.Schedule, *time.Location, error) {
	zone := w.Timezone
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, nil, errors.New("unknown time zone " + jsonc.Quoted(zone))
	}
	// The parser takes other things than the five fields, some of them with a panic.
	if strings.ContainsAny(w.Cron, "=@") {
		return nil, nil, errors.New(jsonc.Quoted(w.Cron) + " is not a cron expression")
	}
	schedule, err := cronParser.Parse(w.Cron)
	if err != nil {
		return nil, nil, errors.New(jsonc.Quoted(w.Cron) + " is not a cron expression: " + jsonc.Short(err.Error()))
	}
	return schedule, location, nil
}

// Open says whether the window is open at a moment. A window that Load would
// refuse is never open.
func (w MaintenanceWindow) Open(at time.Time) bool {
	schedule, location, err := w.Schedule()
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
		schedule, location, err := w.Schedule()
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
