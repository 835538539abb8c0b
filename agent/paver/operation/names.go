package operation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the operations that are carried out.
const (
	RestartService = "restartService"
	RestartMachine = "restartMachine"
	Reboot         = "reboot"
	Shutdown       = "shutdown"
	ResetHost      = "resetHost"
	CollectLogs    = "collectLogs"
	// ApplyConfiguration is what the host does for the operation of that name: it sets SSH keys.
	ApplyConfiguration = "applyConfiguration"
)

// Reasons of operations.
const (
	// ReasonRefusedByHost: the policy of the host does not allow it (M86).
	ReasonRefusedByHost = "RefusedByHost"
	// ReasonInvalidParameters: the parameters are not those of the operation.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonUnsupported: this host cannot do it.
	ReasonUnsupported = "Unsupported"
	// ReasonNotFound: what it is about does not exist.
	ReasonNotFound = "NotFound"
	// ReasonTimeout: it was not done by its deadline.
	ReasonTimeout = "Timeout"
	// ReasonCancelled: it was cancelled before it was begun.
	ReasonCancelled = "Cancelled"
	// ReasonInterrupted: what was known of it is lost, so it is not known whether it was done.
	ReasonInterrupted = "Interrupted"
	// ReasonUnitFailed: the unit was started, and failed.
	ReasonUnitFailed = "UnitFailed"
	// ReasonNotStored: the servers do not store the logs.
	ReasonNotStored = "NotStored"
	// ReasonHalting goes with an operation that is not over: the host is about to go down.
	ReasonHalting = "Halting"
	// ReasonBusy goes with an operation that is not over: what it waits for.
	ReasonBusy = "Busy"
)

// parameters of the operations, by their names, with what is wrong with a value.
var parameters = map[string]map[string]func(string) error{
	RestartService:     {"service": checkService, "scope": oneOf(ScopeMachine, ScopeHost)},
	RestartMachine:     {},
	Reboot:             {"drain": oneOf("true", "false"), "graceSeconds": checkSeconds},
	Shutdown:           {"graceSeconds": checkSeconds},
	ResetHost:          {"confirm": func(string) error { return nil }, "wipe": oneOf("true", "false")},
	CollectLogs:        {"since": checkSince, "units": checkUnits},
	ApplyConfiguration: {}, // but for those of package operation's keys
}

// required are the parameters that an operation must have.
var required = map[string][]string{RestartService: {"service"}, ResetHost: {"confirm"}}

// Scopes of a service.
const (
	ScopeMachine = "machine"
	ScopeHost    = "host"
)

// Names are those of the operations that are carried out, in order.
func Names() []string { return slices.Sorted(maps.Keys(parameters)) }

// Known reports whether operations of a name are carried out.
func Known(name string) bool { return parameters[name] != nil }

// Check says what is wrong with the parameters of an operation. Who asks has checked them; that they
// are right is not believed here, where they are used.
func Check(name string, given map[string]string) error {
	var errs []error
	for _, key := range required[name] {
		if given[key] == "" {
			errs = append(errs, fmt.Errorf("parameter %s is missing", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		check := parameters[name][key]
		if name == ApplyConfiguration && keysOf.MatchString(key) {
			check = func(value string) error { return checkKeys(key, value) }
		}
		if check == nil {
			errs = append(errs, fmt.Errorf("%s takes no parameter %.63q", name, key))
			continue
		}
		if err := check(given[key]); err != nil {
			errs = append(errs, fmt.Errorf("parameter %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// kinds are the suffixes of units that may be restarted. To start a target, or to restart a mount, can take the host
// down, which the policy allows by other names (M86).
var kinds = regexp.MustCompile(`^[^.]*$|[.](service|socket|timer)$`)

// takesDown are the services whose start is the end of all others.
var takesDown = regexp.MustCompile(`^(systemd-(poweroff|reboot|soft-reboot|halt|kexec|exit|suspend|hibernate|hybrid-sleep|suspend-then-hibernate)|emergency|rescue)([.]service)?$`)

func checkService(value string) error {
	switch err := checkUnit(value); {
	case err != nil:
		return err
	case !kinds.MatchString(value):
		return fmt.Errorf("%.63q is no service, socket or timer", value)
	case takesDown.MatchString(value):
		return fmt.Errorf("%.63q takes all other services down", value)
	}
	return nil
}

// unitName is a unit of systemd, which never begins with a hyphen: it is an argument, and no option.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}$`)

func checkUnit(value string) error {
	if !unitName.MatchString(value) {
		return fmt.Errorf("%.63q is no name of a systemd unit", value)
	}
	return nil
}

// mostUnits may be named of one host.
const mostUnits = 16

func checkUnits(value string) error {
	all := strings.Split(value, ",")
	if len(all) > mostUnits {
		return fmt.Errorf("%d units are more than %d", len(all), mostUnits)
	}
	for _, one := range all {
		if err := checkUnit(one); err != nil {
			return err
		}
	}
	return nil
}

func checkSince(value string) error {
	if _, err := since(value, time.Time{}); err != nil {
		return err
	}
	return nil
}

// since is the moment that a parameter names: a time, or how long before another one it is.
func since(value string, before time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(value); err == nil && d > 0 {
		return before.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil || at.Unix() < 0 {
		return at, fmt.Errorf("%.63q is neither a duration such as 2h nor a time such as 2026-01-31T08:00:00Z", value)
	}
	return at, nil
}

func oneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%.63q is not one of %s", value, strings.Join(values, ", "))
		}
		return nil
	}
}

// mostGrace is how long a machine may be given to stop, in seconds.
const mostGrace = 3600

func checkSeconds(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 0 || n > mostGrace {
		return fmt.Errorf("%.63q is no number of seconds from 0 to %d", value, mostGrace)
	}
	return nil
}

// Service is the unit of a [RestartService], with .service where it has no suffix.
func (r Record) Service() string {
	name := r.Parameters["service"]
	if !strings.Contains(name, ".") {
		name += ".service"
	}
	return name
}

// OnHost reports whether the unit of a [RestartService] is one of the host.
func (r Record) OnHost() bool { return r.Parameters["scope"] == ScopeHost }

// Grace is how long a machine is given to stop before its host goes down.
func (r Record) Grace() time.Duration {
	n, err := strconv.Atoi(r.Parameters["graceSeconds"])
	if err != nil {
		n = 30
	}
	return time.Duration(n) * time.Second
}

// Wipe reports whether a [ResetHost] removes what survives repaves as well.
func (r Record) Wipe() bool { return r.Parameters["wipe"] == "true" }

// sinceDefault is how far back the logs of a [CollectLogs] go that does not say so.
const sinceDefault = "1h"

// Since is the moment from which on a [CollectLogs] collects.
func (r Record) Since() time.Time {
	at, err := since(cmp.Or(r.Parameters["since"], sinceDefault), r.Taken)
	if err != nil { // it was checked
		return r.Taken
	}
	return at
}

// Units are those that a [CollectLogs] collects the logs of; none: all logs.
func (r Record) Units() []string {
	if r.Parameters["units"] == "" {
		return nil
	}
	return strings.Split(r.Parameters["units"], ",")
}
