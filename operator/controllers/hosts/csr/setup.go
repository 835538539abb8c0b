package csr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/status"
)

// Register adds the index of credentials to the cache of HostMachines, before that is started or read.
func Register(ctx context.Context, machines client.FieldIndexer) error {
	if err := machines.IndexField(ctx, &hostsv1.HostMachine{}, IndexCredential, Index); err != nil {
		return fmt.Errorf("index HostMachines by %s: %w", IndexCredential, err)
	}
	return nil
}

// Start makes a manager, which may run already, run the reconciler for the requests of a cluster. Only
// then are they watched.
func (r *Reconciler) Start(mgr ctrl.Manager, requests cluster.Cluster, o controller.Options) error {
	o.Reconciler = status.RequeueConflicts(r)
	c, err := controller.New("hosts-csr", mgr, o)
	if err != nil {
		return fmt.Errorf("controller hosts-csr: %w", err)
	}
	all := &handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{}
	if err := c.Watch(source.Kind(requests.GetCache(), &certificatesv1.CertificateSigningRequest{}, all)); err != nil {
		return fmt.Errorf("controller hosts-csr: %w", err)
	}
	return nil
}
