package inplace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Bounds of the parameters of an operation, as the shards have them.
const (
	mostParameters = 32
	mostValue      = 4096
)

// keysOf are the SSH keys of a template.
func keysOf(t *hostsv1.Template) []hostsv1.SSHUser {
	if t.Host == nil {
		return nil
	}
	return t.Host.SSHKeys
}

// hashOf is what tells keys from others.
func hashOf(users []hostsv1.SSHUser) string {
	text, err := json.Marshal(users)
	if err != nil { // strings
		panic(fmt.Sprintf("inplace: encode SSH keys: %v", err))
	}
	if len(users) == 0 {
		return "none"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// parameters are keys as the host is sent them: sshKeys.USER.N, with a key on each line. false: they are too many for an operation.
func parameters(users []hostsv1.SSHUser) (all map[string]string, fit bool) {
	all = map[string]string{}
	numbers := map[string]int{} // by users, who may be in the list more than once
	for _, u := range users {
		value := ""
		end := func() {
			if value != "" {
				all[fmt.Sprintf("sshKeys.%s.%d", u.User, numbers[u.User])] = value
				numbers[u.User]++
			}
			value = ""
		}
		for _, key := range u.Keys {
			text := strings.TrimSpace(string(key))
			if value != "" && len(value)+1+len(text) > mostValue {
				end()
			}
			if value != "" {
				value += "\n"
			}
			value += text
		}
		end()
	}
	return all, len(all) <= mostParameters
}
