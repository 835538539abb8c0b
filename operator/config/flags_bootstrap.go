package config

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// bootstrapSettings say what makes a machine join the cluster, in demand mode.
var bootstrapSettings = []setting{
	text("bootstrap-template-file", "", "template of what makes a machine join the cluster, in demand mode; it is followed. Empty: machines that are bought join no cluster", func(s *Settings) *string { return &s.Demand.Bootstrap.TemplateFile }, anything),
	{
		flag: "demand-join-token-life", fallback: "30m", meaning: "how long a token is valid that the template calls for; another one is made at half of it. 0: none are made",
		set: func(s *Settings, value string) (err error) {
			life := &s.Demand.Bootstrap.JoinTokenLife
			*life, err = time.ParseDuration(value)
			if err != nil || *life != 0 && (*life < shortestJoinToken || *life > longestJoinToken) {
				return fmt.Errorf("%q is neither 0 nor a time from %v to %v, such as 30m", value, shortestJoinToken, longestJoinToken)
			}
			return nil
		},
	},
	list("demand-join-token-groups", "system:bootstrappers:kubeadm:default-node-token", "groups that such a token authenticates as, separated by commas; for k3s system:bootstrappers:k3s:default-node-token", func(s *Settings) *[]string { return &s.Demand.Bootstrap.JoinTokenGroups }, bootstrapGroup),
}

// What a blob is good for is ten minutes at most, and a token has at least half its life left.
const (
	shortestJoinToken = 10 * time.Minute
	longestJoinToken  = 24 * time.Hour
)

var bootstrapGroups = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)

// bootstrapGroup accepts what the API server accepts as a group of a bootstrap token.
func bootstrapGroup(value string) error {
	if !bootstrapGroups.MatchString(value) {
		return errors.New("a group of a join token must begin with system:bootstrappers: and a name after it")
	}
	return nil
}
