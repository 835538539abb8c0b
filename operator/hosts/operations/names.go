package operations

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// aliasRestart is another word for reboot.
const aliasRestart = "restart"

// customTimeout is the time-out of an operation whose name is in no table.
const customTimeout = 10 * time.Minute

// ParameterForce of an operation on the power of a machine, "true": neither a pause nor a repave of the
// machine is waited for.
const ParameterForce = "force"

// Predefined is an operation whose name is known.
type Predefined struct {
	Name     string
	Executor string // that carries it out
	Timeout  time.Duration
	// Power: it switches the power of the machine.
	Power      bool
	Parameters []Parameter
}

// Parameter of a predefined operation.
type Parameter struct {
	Name     string
	Required bool
	// Check says what is wrong with a value, for the machine of a name.
	Check func(machine, value string) error
}

var predefined = table()

// table returns the predefined operations by their names.
func table() map[string]Predefined {
	all := map[string]Predefined{}
	drain := Parameter{Name: "drain", Check: isBool}
	grace := Parameter{Name: "graceSeconds", Check: isSeconds}
	force := Parameter{Name: ParameterForce, Check: isBool}
	mode := Parameter{Name: "mode", Check: oneOf("graceful", "hard")}
	for _, p := range []Predefined{
		{Name: hostsv1.OperationReboot, Executor: hostsv1.ExecutorPaver, Timeout: 10 * time.Minute, Parameters: []Parameter{drain, grace}},
		{Name: hostsv1.OperationShutdown, Executor: hostsv1.ExecutorPaver, Timeout: 5 * time.Minute, Parameters: []Parameter{grace}},
		{Name: hostsv1.OperationRestartService, Executor: hostsv1.ExecutorPaver, Timeout: 2 * time.Minute, Parameters: []Parameter{
			{Name: "service", Required: true, Check: isService}, {Name: "scope", Check: oneOf("machine", "host")},
		}},
		{Name: hostsv1.OperationRestartMachine, Executor: hostsv1.ExecutorPaver, Timeout: 5 * time.Minute},
		{Name: hostsv1.OperationRepave, Executor: hostsv1.ExecutorController, Timeout: 45 * time.Minute, Parameters: []Parameter{drain, {Name: "version", Check: isVersion}}},
		{Name: hostsv1.OperationApplyConfiguration, Executor: hostsv1.ExecutorController, Timeout: 45 * time.Minute, Parameters: []Parameter{{Name: "disruptive", Check: isBool}}},
		{Name: hostsv1.OperationPowerOff, Executor: hostsv1.ExecutorProvider, Timeout: 10 * time.Minute, Power: true, Parameters: []Parameter{mode, force}},
		{Name: hostsv1.OperationPowerOn, Executor: hostsv1.ExecutorProvider, Timeout: 10 * time.Minute, Power: true, Parameters: []Parameter{force}},
		{Name: hostsv1.OperationPowerCycle, Executor: hostsv1.ExecutorProvider, Timeout: 15 * time.Minute, Power: true, Parameters: []Parameter{{Name: "mode", Check: oneOf("hard")}, force}},
		{Name: hostsv1.OperationCollectLogs, Executor: hostsv1.ExecutorPaver, Timeout: 5 * time.Minute, Parameters: []Parameter{
			{Name: "since", Check: isSince}, {Name: "units", Check: areUnits},
		}},
		{Name: hostsv1.OperationResetHost, Executor: hostsv1.ExecutorPaver, Timeout: 15 * time.Minute, Parameters: []Parameter{
			{Name: "confirm", Required: true, Check: isMachine}, {Name: "wipe", Check: isBool},
		}},
	} {
		all[p.Name] = p
	}
	return all
}

// Names are those of the predefined operations, in order.
func Names() []string { return slices.Sorted(maps.Keys(predefined)) }

// Known returns the predefined operation of a name; false: the name is a custom one.
func Known(name string) (Predefined, bool) {
	p, ok := predefined[Name(name)]
	return p, ok
}

// Name is the name that executors know an operation by: restart is another word for reboot.
func Name(name string) string {
	if name == aliasRestart {
		return hostsv1.OperationReboot
	}
	return name
}

// Timeout is how long an operation may take once it was taken.
func Timeout(op *hostsv1.MachineOperation) time.Duration {
	if s := op.Spec.TimeoutSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	if p, ok := Known(op.Spec.OperationName); ok {
		return p.Timeout
	}
	return customTimeout
}

// Forced reports whether an operation waits neither for a pause nor for a repave.
func Forced(op *hostsv1.MachineOperation) bool {
	p, ok := Known(op.Spec.OperationName)
	return ok && p.Power && op.Spec.Parameters[ParameterForce] == "true"
}

// Executor is who carries an operation out, of those who offer operations on its machine. Empty:
// nobody offers it. Of several who offer a custom name it is the first in the order of their names.
func Executor(name string, offered []hostsv1.Executor) string {
	name = Name(name)
	p, known := predefined[name]
	var found string
	for _, e := range offered {
		switch {
		case !slices.Contains(e.Operations, name) || known && e.Name != p.Executor:
		case found == "" || e.Name < found:
			found = e.Name
		}
	}
	return found
}

// CheckParameters says everything that is wrong with the parameters of an operation on a machine, and
// nil if nothing is, or if the name is a custom one.
func CheckParameters(op *hostsv1.MachineOperation, machine string) error {
	p, known := Known(op.Spec.OperationName)
	if !known {
		return nil
	}
	var errs []error
	takes := map[string]bool{}
	for _, parameter := range p.Parameters {
		takes[parameter.Name] = true
		value, given := op.Spec.Parameters[parameter.Name]
		switch {
		case !given && parameter.Required:
			errs = append(errs, fmt.Errorf("parameter %s is missing", parameter.Name))
		case given:
			if err := parameter.Check(machine, string(value)); err != nil {
				errs = append(errs, fmt.Errorf("parameter %s: %w", parameter.Name, err))
			}
		}
	}
	if p.Name == hostsv1.OperationReboot && Timeout(op) > LongestReboot {
		errs = append(errs, fmt.Errorf("timeoutSeconds: a reboot may take %.0f seconds, as its instance is not on hold for longer", LongestReboot.Seconds()))
	}
	for _, key := range sortedKeys(op.Spec.Parameters) {
		if !takes[key] {
			errs = append(errs, fmt.Errorf("%s takes no parameter %.63q", p.Name, key))
		}
	}
	return errors.Join(errs...)
}

var (
	unit            = regexp.MustCompile(`^[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}$`)
	restartable     = regexp.MustCompile(`[.](service|socket|timer)$`)
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	digits          = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
)

func isBool(_, value string) error { return oneOf("true", "false")("", value) }

func oneOf(values ...string) func(string, string) error {
	return func(_, value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%.63q must be one of %s", value, strings.Join(values, ", "))
		}
		return nil
	}
}

func isSeconds(_, value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 0 || n > 3600 {
		return fmt.Errorf("%.63q must be a number of seconds from 0 to 3600", value)
	}
	return nil
}

func isVersion(_, value string) error {
	if !digits.MatchString(value) {
		return fmt.Errorf("%.63q must be the number of a version", value)
	}
	return nil
}

func isUnit(_, value string) error {
	if !unit.MatchString(value) {
		return fmt.Errorf("%.63q must be the name of a systemd unit", value)
	}
	return nil
}

// isService is what the host checks as well: to start another kind of unit can take it down.
func isService(_, value string) error {
	if err := isUnit("", value); err != nil {
		return err
	}
	if strings.Contains(value, ".") && !restartable.MatchString(value) {
		return fmt.Errorf("%.63q must be a service, socket or timer", value)
	}
	return nil
}

func areUnits(_, value string) error {
	all := strings.Split(value, ",")
	if len(all) > 16 {
		return errors.New("more than 16 units")
	}
	for _, one := range all {
		if err := isUnit("", one); err != nil {
			return err
		}
	}
	return nil
}

func isSince(_, value string) error {
	if d, err := time.ParseDuration(value); err == nil && d > 0 {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, value); err == nil {
		return nil
	}
	return fmt.Errorf("%.63q must be a duration such as 2h, or a time such as 2026-01-31T08:00:00Z", value)
}

func isMachine(machine, value string) error {
	if machine != "" && value != machine {
		return fmt.Errorf("%.63q must be the name of the machine", value)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cut cuts a text that is too long, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}
