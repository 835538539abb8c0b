package aws

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"nstance.dev/providers/aws/rules"
)

// Options are the settings of a [Driver]. The zero value takes everything from
// the environment of the process, as the SDK does.
type Options struct {
	Region string // of the account; the SDK's own
	Zone   string // of the machines, such as us-east-1a; names their URIs

	Profile string             // of the shared configuration files; the SDK's own
	Prices  map[string]float64 // USD for an hour of an instance type; EC2 does not say

	// OtherZones allows subnets that are not in Zone. Their machines have URIs that name
	// Zone all the same.
	OtherZones bool

	// LeaderIP and LeaderInterface are the address that moves to the leader and
	// the network interface that carries it. Empty: none.
	LeaderIP        string
	LeaderInterface string

	HTTPClient *http.Client               // for every call; the SDK's own
	Log        *slog.Logger               // hears of doubts that fail no call; discards
	Now        func() time.Time           // decides when what is remembered is too old; time.Now
	Addresses  func() ([]net.Addr, error) // those of this box; net.InterfaceAddrs
}

// ParseOptions reads the provider's options from a server's configuration. The
// error names every unknown key and every value of the wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	o, err := rules.ParseOptions(from)
	return Options{Profile: o.Profile, Prices: o.Prices, OtherZones: o.OtherZones}, err
}

// complete fills in the defaults and checks what can be checked beforehand.
func (o Options) complete() (Options, error) {
	if (o.LeaderIP == "") != (o.LeaderInterface == "") {
		return o, errors.New("leader_network: needs both ip and interface_id")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Addresses == nil {
		o.Addresses = net.InterfaceAddrs
	}
	return o, nil
}
