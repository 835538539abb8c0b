package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/power"
	"nstance.dev/server/refusal"
)

var paramKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// checkOperation reports what is wrong with a request.
func checkOperation(req OperationRequest, now time.Time) error {
	field, why := "", ""
	switch {
	case !layout.ValidOperationID(req.ID):
		field, why = "id", "it must have 1 to 64 lower-case letters, digits and hyphens"
	case !slices.Contains(power.Names(), req.Name):
		field, why = "name", fmt.Sprintf("%q must be one of %s", req.Name, joined(power.Names()))
	case !req.Deadline.IsZero() && !req.Deadline.After(now):
		field, why = "deadline", "it has passed"
	case req.Deadline.Sub(now) > longestOperation:
		field, why = "deadline", fmt.Sprintf("it is more than %v ahead", longestOperation)
	case len(req.Params) > maxParams:
		field, why = "parameters", fmt.Sprintf("there are %d, and may be %d", len(req.Params), maxParams)
	}
	if field != "" {
		return refusal.New(refusal.InvalidArgument, "INVALID_OPERATION", "%s: %s", field, why)
	}
	for _, key := range slices.Sorted(maps.Keys(req.Params)) {
		value := req.Params[key]
		switch {
		case len(key) > maxParamKey || len(value) > maxParamValue || !paramKey.MatchString(key):
			why = "it is malformed or too long"
		case key == "force" && (value == "true" || value == "false"): // what it means, whoever asks has decided
		case key == "mode" && (value == "hard" || value == "graceful" && req.Name != power.Cycle) && req.Name != power.On:
		default:
			why = fmt.Sprintf("%s does not take it, or not with this value", req.Name)
		}
		if why != "" {
			return refusal.New(refusal.InvalidArgument, "INVALID_PARAMETERS", "parameters[%.63q]: %s", key, why)
		}
	}
	return nil
}

func joined(names []power.Name) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = string(n)
	}
	return strings.Join(all, ", ")
}

// marksOf are marks as a record has them, and entriesOf the reverse.
func marksOf(entries []power.Entry) []layout.OperationMark {
	out := make([]layout.OperationMark, len(entries))
	for i, e := range entries {
		out[i] = layout.OperationMark{Mark: string(e.Mark), Action: string(e.Action), At: layout.At(e.At), Times: e.Times}
		if !e.Accepted.IsZero() {
			out[i].Accepted = layout.At(e.Accepted)
		}
	}
	return out
}

func entriesOf(marks []layout.OperationMark) []power.Entry {
	out := make([]power.Entry, len(marks))
	for i, m := range marks {
		out[i] = power.Entry{Mark: power.Mark(m.Mark), Action: driver.PowerAction(m.Action), At: m.At.Time, Times: cmp.Or(m.Times, 1), Accepted: m.Accepted.Time}
	}
	return out
}
