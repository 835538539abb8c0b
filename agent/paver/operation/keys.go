package operation

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/agent/paver/render"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// keysOf are the parameters of [ApplyConfiguration]: sshKeys.USER.N, from N 0 on, are public keys of a user of the host, one on a
// line. A user who is in none has no keys any more.
var keysOf = regexp.MustCompile(`^sshKeys[.]([a-z_][-a-z0-9_]{0,31})[.]([0-9]{1,2})$`)

func checkKeys(key, value string) error {
	if value == "" {
		return errors.New("it has no key")
	}
	return render.PublicKeys(keysOf.FindStringSubmatch(key)[1], strings.Split(value, "\n"))
}

// SSHKeys are those that an [ApplyConfiguration] sets, by the users of the host.
func (r Record) SSHKeys() (users []*nstancev1.MachineSshUser) {
	for _, key := range slices.SortedFunc(maps.Keys(r.Parameters), func(a, b string) int { return strings.Compare(ordered(a), ordered(b)) }) {
		parts := keysOf.FindStringSubmatch(key)
		if parts == nil {
			continue
		}
		if n := len(users); n == 0 || users[n-1].User != parts[1] {
			users = append(users, &nstancev1.MachineSshUser{User: parts[1]})
		}
		last := users[len(users)-1]
		last.Keys = append(last.Keys, strings.Split(r.Parameters[key], "\n")...)
	}
	return users
}

// ordered is a parameter with its number such that the order of texts is that of numbers.
func ordered(key string) string {
	parts := keysOf.FindStringSubmatch(key)
	if parts == nil {
		return key
	}
	return fmt.Sprintf("%s %02s", parts[1], parts[2])
}

// Keys is what came of setting keys: who has theirs now, and who may not have any on this host (M100).
type Keys struct{ Set, Refused []string }

// Outcome is how an operation ends of which that came.
func (k Keys) Outcome() Outcome {
	o := Outcome{Message: "the SSH keys are set", Results: map[string]string{}}
	if len(k.Set) > 0 {
		o.Results["sshKeys"] = strings.Join(k.Set, ", ")
	}
	if len(k.Refused) == 0 {
		return o
	}
	o.Results["refused"] = strings.Join(k.Refused, ", ")
	o.Reason = ReasonRefusedByHost
	o.Message = "left out are keys of users who do not exist on this host, or are not in ssh.users of its policy: " + o.Results["refused"]
	o.Failed = len(k.Set) == 0
	return o
}
