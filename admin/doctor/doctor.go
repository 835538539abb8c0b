// Package doctor finds what keeps an administrator from working with a cluster, and says
// what to do about it.
//
// Each check is a function of what was observed and of the time: [Identity] reads the
// files of an identity, [Servers] judges what the addresses of a shard answered, [Clock]
// compares times that others have noted, [Shard] reads what a leader says of itself and
// its groups, [Storage] what is stored. Nothing here changes anything, and no finding
// contains a key.
package doctor

import (
	"fmt"
	"strings"
	"time"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warning" // it works, and will not for long or not for everything
	Fail Level = "failed"
)

// Finding is the outcome of one check.
type Finding struct {
	Check   string `json:"check"` // identity, ports, versions, clock, permissions, storage, groups
	Subject string `json:"subject"`
	Level   Level  `json:"level"`
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy,omitempty"`
}

// Failed reports whether anything has failed.
func Failed(all []Finding) bool {
	for _, f := range all {
		if f.Level == Fail {
			return true
		}
	}
	return false
}

// list collects the findings of one check.
type list struct {
	check string
	all   []Finding
}

func (l *list) add(level Level, subject, remedy, format string, args ...any) {
	l.all = append(l.all, Finding{l.check, subject, level, fmt.Sprintf(format, args...), remedy})
}

// span is a duration that is read, not computed with.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	case d >= time.Second:
		return d.Round(time.Second).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

func has(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
