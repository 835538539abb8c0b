// Package api calls Google Compute Engine for the driver: the SDK's clients without their own
// retries, the reads that several parts need, operations and the wait for them, the one call
// that the SDK cannot make, and what an error of the cloud means.
//
// A [Client] speaks for one zone of one project, see [Place]. Its methods are safe for
// concurrent use. Errors are of type [driver.Error], but where a doc comment says otherwise.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cloud.google.com/go/auth/credentials"
	compute "cloud.google.com/go/compute/apiv1"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"
)

// scope is what the driver's calls need; roles decide about the rest.
const scope = "https://www.googleapis.com/auth/compute"

// Client is what the driver uses of the SDK, without the SDK's own retries: the
// server paces calls and decides what is sent again.
type Client struct {
	Place
	http     *http.Client // authorized
	Endpoint string       // scheme and host of the API; never empty

	Zones      *compute.ZonesClient
	Instances  *compute.InstancesClient
	operations *compute.ZoneOperationsClient
	Subnets    *compute.SubnetworksClient
	Types      *compute.MachineTypesClient
	Groups     *compute.InstanceGroupsClient
	NEGs       *compute.NetworkEndpointGroupsClient
}

// defaultEndpoint is where calls go that the SDK has no method for.
const defaultEndpoint = "https://compute.googleapis.com"

// Authorize returns a client that has the application default credentials, and
// their project, which may be unknown.
func Authorize(ctx context.Context) (*http.Client, string, error) {
	creds, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
	if err != nil {
		return nil, "", fmt.Errorf("no credentials: run on a Compute Engine machine that has a service account, or set GOOGLE_APPLICATION_CREDENTIALS to a key or federation file: %w", err)
	}
	client, _, err := htransport.NewClient(ctx, option.WithAuthCredentials(creds), option.WithScopes(scope))
	if err != nil {
		return nil, "", fmt.Errorf("credentials: %w", err)
	}
	project, _ := creds.ProjectID(ctx) // a user's own credentials have none
	return client, project, nil
}

// Connect makes the SDK's clients over an HTTP client. It sends nothing.
func Connect(ctx context.Context, client *http.Client, endpoint string, where Place) (*Client, error) {
	opts := []option.ClientOption{option.WithHTTPClient(client)}
	if endpoint != "" {
		opts = append(opts, option.WithEndpoint(endpoint))
	} else {
		endpoint = defaultEndpoint
	}
	a := &Client{Place: where, http: client, Endpoint: endpoint}
	var errs [7]error
	a.Zones, errs[0] = compute.NewZonesRESTClient(ctx, opts...)
	a.Instances, errs[1] = compute.NewInstancesRESTClient(ctx, opts...)
	a.operations, errs[2] = compute.NewZoneOperationsRESTClient(ctx, opts...)
	a.Subnets, errs[3] = compute.NewSubnetworksRESTClient(ctx, opts...)
	a.Types, errs[4] = compute.NewMachineTypesRESTClient(ctx, opts...)
	a.Groups, errs[5] = compute.NewInstanceGroupsRESTClient(ctx, opts...)
	a.NEGs, errs[6] = compute.NewNetworkEndpointGroupsRESTClient(ctx, opts...)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a.withoutRetries()
	return a, nil
}

// withoutRetries takes the SDK's call options away, and with them its time-outs,
// which are ten minutes: the caller's context bounds a call.
func (a *Client) withoutRetries() {
	*a.Zones.CallOptions = compute.ZonesCallOptions{}
	*a.Instances.CallOptions = compute.InstancesCallOptions{}
	*a.operations.CallOptions = compute.ZoneOperationsCallOptions{}
	*a.Subnets.CallOptions = compute.SubnetworksCallOptions{}
	*a.Types.CallOptions = compute.MachineTypesCallOptions{}
	*a.Groups.CallOptions = compute.InstanceGroupsCallOptions{}
	*a.NEGs.CallOptions = compute.NetworkEndpointGroupsCallOptions{}
}
