package gcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"nstance.dev/providers/gcp/rules"
)

// Environment variables that stand in for options.
const (
	// EnvProject is the project where the option "project" is not set. It is the
	// variable of Google's own programs.
	EnvProject = "GOOGLE_CLOUD_PROJECT"
	// EnvEndpoint is the endpoint where the option "endpoint" is not set.
	EnvEndpoint = "NSTANCE_GCE_ENDPOINT"
)

// Options are the settings of a [Driver]. Zone is required; the other zero fields
// take the defaults.
type Options struct {
	// Project holds the machines. Default: that of the environment
	// ([EnvProject]), then that of the credentials.
	Project string
	// Region is that of subnets which are given by name. Default: the zone's.
	Region string
	// Zone holds the machines.
	Zone string
	// Endpoint is the API's address, scheme and host. Default: that of the
	// environment ([EnvEndpoint]), then Google's.
	Endpoint string
	// Prices are those of an hour of a machine type, in USD. The API of the machines
	// has none. Nil: none are known.
	Prices map[string]float64
	// LeaderIP is the address that moves with leadership; the zero value is none.
	LeaderIP netip.Addr

	// HTTPClient sends the calls as they are, authorized or not. Default: one that
	// has the application default credentials.
	HTTPClient *http.Client
	// Metadata sends the questions to the metadata server. Default: as the SDK does.
	Metadata *http.Client

	Log *slog.Logger     // hears of what is done without; discards
	Now func() time.Time // decides how long answers are kept; time.Now
}

// ParseOptions reads the provider's options from a server's configuration. The
// error names every unknown key and every value of the wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	o, err := rules.ParseOptions(from)
	return Options{Project: o.Project, Endpoint: o.Endpoint, Prices: o.Prices}, err
}

// complete fills in what needs no look at the cloud, and checks it.
func (o Options) complete() (Options, error) {
	if o.Project == "" {
		o.Project = os.Getenv(EnvProject)
	}
	if o.Endpoint == "" {
		o.Endpoint = os.Getenv(EnvEndpoint)
	}
	if o.Endpoint != "" {
		if err := rules.CheckEndpoint(o.Endpoint); err != nil {
			return o, fmt.Errorf("endpoint: %w", err)
		}
	}
	cut := strings.LastIndexByte(o.Zone, '-')
	switch {
	case o.Zone == "":
		return o, errors.New("zone: missing; set server.provider.zone, such as europe-west4-a")
	case cut <= 0:
		return o, fmt.Errorf("zone: %q is not a zone, such as europe-west4-a", o.Zone)
	case o.Region == "":
		o.Region = o.Zone[:cut]
	case o.Region != o.Zone[:cut]:
		return o, fmt.Errorf("region: %q is not that of zone %q; leave it out, or set %q", o.Region, o.Zone, o.Zone[:cut])
	}
	if o.LeaderIP.IsValid() && !o.LeaderIP.Is4() {
		return o, fmt.Errorf("leader_network.ip: %s must be an IPv4 address: only those can be alias addresses", o.LeaderIP)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
