package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time. In JSON it is a string in Go's syntax, such as
// "90s" or "6h30m", or a whole number of days, such as "7d"; the number 0 is
// accepted for "0s".
type Duration time.Duration

// Std gives the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String gives whole days as "7d" and all else in Go's syntax.
func (d Duration) String() string {
	const day = 24 * time.Hour
	if t := time.Duration(d); t != 0 && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// overlong matches what is written like a duration.
var overlong = regexp.MustCompile(`^\+?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// ParseDuration reads Go's syntax, or a whole number of days with the suffix d.
// A negative duration is an error: nothing here is one.
func ParseDuration(s string) (Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && n > uint64(math.MaxInt64/(24*time.Hour)):
			return 0, fmt.Errorf("%q is too long: more than %d days", s, math.MaxInt64/(24*time.Hour))
		case err != nil:
			return 0, fmt.Errorf("%q is not a whole number of days", s)
		}
		return Duration(time.Duration(n) * 24 * time.Hour), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil && overlong.MatchString(s) {
		return 0, fmt.Errorf("%q is too long: more than %d days", s, math.MaxInt64/(24*time.Hour))
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Duration(d), nil
}

// MarshalJSON writes the form of String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string as ParseDuration does, or the number 0.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "0" {
		*d = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s is not a duration", data)
	}
	parsed, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Remedy says what a duration looks like.
func (Duration) Remedy() string { return `write it as "90s", "6h" or "7d"` }

// Percent is a share in whole percent, 0 to 100; in JSON a string such as "25%".
type Percent int

// Of gives the share of n, rounded down.
func (p Percent) Of(n int) int { return n * int(p) / 100 }

// String gives the form of JSON.
func (p Percent) String() string { return strconv.Itoa(int(p)) + "%" }

// MarshalJSON writes the form of String.
func (p Percent) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads a string such as "25%".
func (p *Percent) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s is not a percentage", data)
	}
	digits, ok := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n > 100 {
		return fmt.Errorf("%q is not a percentage", s)
	}
	*p = Percent(n)
	return nil
}

// Remedy says what a percentage looks like.
func (Percent) Remedy() string { return `write a whole number from "0%" to "100%"` }

// SourceCheck says what happens to a registration that comes from an address that the
// provider does not report for the machine.
type SourceCheck string

// The source checks. The zero value stands for the default, [SourceCheckWarn].
const (
	SourceCheckRequire SourceCheck = "require" // it is refused
	SourceCheckWarn    SourceCheck = "warn"    // it is granted, and reported
	SourceCheckOff     SourceCheck = "off"     // it is granted
)

// UnmarshalJSON reads a string, and the booleans that configurations had before there were
// three ways: true is require, false is off.
func (c *SourceCheck) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", `"require"`:
		*c = SourceCheckRequire
	case `"warn"`:
		*c = SourceCheckWarn
	case "false", `"off"`:
		*c = SourceCheckOff
	default:
		return fmt.Errorf("%s is not a way to check the source", data)
	}
	return nil
}

// Remedy says which values there are.
func (SourceCheck) Remedy() string { return `must be one of "require", "warn" and "off"` }

// Hours is a life of certificates, in hours.
type Hours int

// Std gives the life as the standard library's type.
func (h Hours) Std() time.Duration { return time.Duration(h) * time.Hour }

// InstanceTypes are the types that a machine may have, the preferred one
// first. In JSON a single type may be a plain string.
type InstanceTypes []string

// UnmarshalJSON reads a string or a list of strings.
func (t *InstanceTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil && !bytes.Equal(data, []byte("null")) {
		*t = InstanceTypes{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil || list == nil {
		return errors.New("not an instance type or a list of them")
	}
	*t = list
	return nil
}

// MarshalJSON writes a single type as a string, more of them as a list.
func (t InstanceTypes) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Remedy says what instance types look like.
func (InstanceTypes) Remedy() string { return `write "t4g.medium", or ["t4g.medium", "t4g.large"]` }

// Vars are variables for templates. In JSON numbers and booleans are accepted
// and become strings just as they are written.
type Vars map[string]string

// UnmarshalJSON reads an object of strings, numbers and booleans.
func (v *Vars) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	vars := make(Vars, len(raw))
	for name, value := range raw {
		s, err := scalarText(value)
		if err != nil {
			return fmt.Errorf("var %q: %w", name, err)
		}
		vars[name] = s
	}
	*v = vars
	return nil
}

func scalarText(value json.RawMessage) (string, error) {
	switch value[0] {
	case '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case '{', '[', 'n':
		return "", errors.New("not a string, number or boolean")
	default:
		return string(value), nil
	}
}

// Time is a moment, written in UTC with milliseconds.
type Time struct{ time.Time }

// MarshalJSON writes RFC 3339 in UTC with three digits of a second.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}
