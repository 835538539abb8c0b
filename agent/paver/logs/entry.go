package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Fields are what is asked for of each entry of a journal. A field of more than 4096 bytes journalctl leaves out.
const Fields = "MESSAGE,SYSLOG_IDENTIFIER,_COMM,_PID,_SYSTEMD_UNIT"

// entry is one of a journal.
type entry struct {
	at         time.Time
	unit       string
	identifier string
	pid        string
	message    string
}

// tooLong stands for a message that journalctl has left out.
const tooLong = "<a message of more than 4096 bytes>"

// errEntry is matched by the errors about lines that are no entry.
var errEntry = errors.New("no entry of a journal")

// parse reads a line that journalctl --output=json has written.
func parse(line []byte) (e entry, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return e, fmt.Errorf("%w: it is no object of JSON", errEntry)
	}
	micros, err := strconv.ParseInt(text(fields["__REALTIME_TIMESTAMP"]), 10, 64)
	if err != nil {
		return e, fmt.Errorf("%w: it has no time", errEntry)
	}
	e = entry{
		at: time.UnixMicro(micros).UTC(), unit: text(fields["_SYSTEMD_UNIT"]), identifier: text(fields["SYSLOG_IDENTIFIER"]),
		pid: text(fields["_PID"]), message: text(fields["MESSAGE"]),
	}
	if e.identifier == "" {
		e.identifier = text(fields["_COMM"])
	}
	if raw := fields["MESSAGE"]; string(raw) == "null" {
		e.message = tooLong
	}
	return e, nil
}

// text is the value of a field: a string, the bytes of what is none, or the last of several values.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var numbers []uint8 // json reads a string of base64 into []byte, and numbers into this all the same
	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil || len(values) == 0 {
		return ""
	}
	for _, v := range values {
		n, err := strconv.ParseUint(string(v), 10, 8)
		if err != nil {
			return text(values[len(values)-1])
		}
		numbers = append(numbers, uint8(n))
	}
	return string(numbers)
}

// source is who wrote an entry.
func (e entry) source() string { return e.unit + "\x00" + e.identifier + "\x00" + e.pid }

// line is an entry as people read it, with a message that was masked. The lines of a message after the first are indented, and
// nothing in it can steer a terminal.
func (e entry) line(masked string) string {
	who := e.identifier
	if e.pid != "" {
		who += "[" + e.pid + "]"
	}
	unit := e.unit
	if unit == "" {
		unit = "-"
	}
	return e.at.Format("2006-01-02T15:04:05.000000Z") + " " + plain(unit) + " " + plain(who) + ": " + strings.ReplaceAll(plain(masked), "\n", "\n    ") + "\n"
}

// plain is a text without what steers a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
