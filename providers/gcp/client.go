package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cloud.google.com/go/auth/credentials"
	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/metadata"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"
)

// scope is what the driver's calls need; roles decide about the rest.
const scope = "https://www.googleapis.com/auth/compute"

// api is what the driver uses of the SDK, without the SDK's own retries: the
// server paces calls and decides what is sent again.
type api struct {
	http     *http.Client // authorized
	endpoint string

	zones      *compute.ZonesClient
	instances  *compute.InstancesClient
	operations *compute.ZoneOperationsClient
	subnets    *compute.SubnetworksClient
	types      *compute.MachineTypesClient
	groups     *compute.InstanceGroupsClient
	negs       *compute.NetworkEndpointGroupsClient
}

// defaultEndpoint is where calls go that the SDK has no method for.
const defaultEndpoint = "https://compute.googleapis.com"

// authorize returns a client that has the application default credentials, and
// their project, which may be unknown.
func authorize(ctx context.Context) (*http.Client, string, error) {
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

// connect makes the SDK's clients over an HTTP client. It sends nothing.
func connect(ctx context.Context, client *http.Client, endpoint string) (api, error) {
	opts := []option.ClientOption{option.WithHTTPClient(client)}
	if endpoint != "" {
		opts = append(opts, option.WithEndpoint(endpoint))
	} else {
		endpoint = defaultEndpoint
	}
	a := api{http: client, endpoint: endpoint}
	var errs [7]error
	a.zones, errs[0] = compute.NewZonesRESTClient(ctx, opts...)
	a.instances, errs[1] = compute.NewInstancesRESTClient(ctx, opts...)
	a.operations, errs[2] = compute.NewZoneOperationsRESTClient(ctx, opts...)
	a.subnets, errs[3] = compute.NewSubnetworksRESTClient(ctx, opts...)
	a.types, errs[4] = compute.NewMachineTypesRESTClient(ctx, opts...)
	a.groups, errs[5] = compute.NewInstanceGroupsRESTClient(ctx, opts...)
	a.negs, errs[6] = compute.NewNetworkEndpointGroupsRESTClient(ctx, opts...)
	if err := errors.Join(errs[:]...); err != nil {
		return api{}, err
	}
	a.withoutRetries()
	return a, nil
}

// withoutRetries takes the SDK's call options away, and with them its time-outs,
// which are ten minutes: the caller's context bounds a call.
func (a api) withoutRetries() {
	*a.zones.CallOptions = compute.ZonesCallOptions{}
	*a.instances.CallOptions = compute.InstancesCallOptions{}
	*a.operations.CallOptions = compute.ZoneOperationsCallOptions{}
	*a.subnets.CallOptions = compute.SubnetworksCallOptions{}
	*a.types.CallOptions = compute.MachineTypesCallOptions{}
	*a.groups.CallOptions = compute.InstanceGroupsCallOptions{}
	*a.negs.CallOptions = compute.NetworkEndpointGroupsCallOptions{}
}

// metadataServer asks through a client, or as the SDK does.
func metadataServer(client *http.Client) *metadata.Client {
	if client == nil {
		return metadata.NewWithOptions(&metadata.Options{UseDefaultClient: true})
	}
	return metadata.NewClient(client)
}
