package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// timeLayout always has three digits of a second, so that equal times have
// equal texts.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment in a document: in UTC and whole milliseconds. The zero value
// means "not yet" and is written as null.
type Time struct{ time.Time }

// At returns t as a document can hold it.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{time.UnixMilli(t.UnixMilli()).UTC()}
}

// String writes t as in a document, and "" for the zero value.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	if !writable(t.Time) {
		return nil, fmt.Errorf("year %d has no form in RFC 3339", t.UTC().Year())
	}
	return json.Marshal(t.String())
}

// UnmarshalJSON reads a time of RFC 3339 in any zone and precision; null and ""
// are the zero value.
func (t *Time) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil {
		return errors.New("it is not a text")
	}
	if s == nil || *s == "" {
		*t = Time{}
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil || !writable(parsed) {
		return errors.New("it is not a time of RFC 3339")
	}
	*t = At(parsed)
	return nil
}

// writable reports whether t has a year of four digits in UTC, also where an
// offset has moved it over the edge.
func writable(t time.Time) bool {
	y := t.UTC().Year()
	return y >= 1 && y <= 9999
}
