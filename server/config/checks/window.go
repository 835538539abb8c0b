package checks

import (
	"strings"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

func (c *report) windows(path jsonc.Path, windows []document.MaintenanceWindow) {
	for i, w := range windows {
		p := path.Index(i)
		if w.Duration <= 0 {
			c.add(p.Key("duration"), "required, above 0", `how long the window stays open, such as "4h"`)
		}
		schedule, location, err := w.Schedule()
		switch {
		case err != nil && location == nil && strings.HasPrefix(err.Error(), "unknown time zone"):
			c.add(p.Key("timezone"), err.Error(), `an IANA name, such as "Europe/Berlin"`)
		case err != nil:
			c.add(p.Key("cron"), err.Error(), `five fields: minute, hour, day of month, month, day of week, such as "0 2 * * sat"`)
		case schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, location)).IsZero():
			c.add(p.Key("cron"), jsonc.Quoted(w.Cron)+" never comes", "choose a day that exists")
		}
	}
}
