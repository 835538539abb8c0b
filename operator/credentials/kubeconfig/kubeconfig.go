// Package kubeconfig is the way to the workload cluster: it keeps the Secret that Cluster API
// reaches that cluster with, and makes clients of one that an administrator keeps.
//
// Cluster API's own controllers look for `<cluster>-kubeconfig`, connect with what is in it
// and keep that connection for as long as its token is good. So in a cluster that manages
// itself the operator asks the API server for a token of a service account, for an hour,
// and asks for the next one when half of that is over. A token that an earlier process asked
// for is replaced at once: it ended with its service account, if that was deleted and made
// anew since, and nothing in the Secret says so.
//
// [Render] makes the content and [Due] says when it is time for a new one; both are pure.
// [Reconciler] carries out. It needs the rights to get, list, watch, create and update
// secrets, to get, list and watch clusters, and to create tokens of the service account.
//
// Where the workload cluster is another one, its kubeconfig is given by an administrator
// and nobody here writes it: [Problem] says what is wrong with it. It may change at any time,
// for credentials run out. So [ClientConfig] is made once and never changes, and all clients
// and caches that are made of it go through one [Transport], which takes in each new
// kubeconfig.
package kubeconfig

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Life is how long a token is asked for. The API server may give another time.
const Life = time.Hour

// key is the entry of the Secret.
const key = "value"

// Name returns the name of the Secret of a Cluster.
func Name(cluster string) string { return cluster + "-kubeconfig" }

// Endpoint is an API server.
type Endpoint struct {
	URL string // https://host:port
	CA  []byte // authorities of its certificate, PEM
}

// Render returns a kubeconfig for one user with a token.
func Render(cluster string, to Endpoint, token string) ([]byte, error) {
	const user = "cluster-api"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: to.URL, CertificateAuthorityData: to.CA}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{cluster: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: cluster,
	})
}

// Due returns when the token that ends at a time is to be replaced: half of [Life] before.
func Due(expiry time.Time) time.Time { return expiry.Add(-Life / 2) }

// Retry returns how long to wait after so many failures in a row, from 1: 10s and twice as
// long each time, 2m at most.
func Retry(failures int) time.Duration {
	return min(10*time.Second<<min(max(failures, 1)-1, 8), 2*time.Minute)
}

// Problem says why Cluster API cannot use the Secret of a cluster that an administrator
// made, and what to do; "" if it can. A nil Secret is missing.
func Problem(cluster string, s *corev1.Secret) string {
	switch {
	case s == nil:
		return fmt.Sprintf("secret %s is missing; put a kubeconfig of the workload cluster into its entry %q", Name(cluster), key)
	case s.Labels[clusterv1.ClusterNameLabel] != cluster:
		return fmt.Sprintf("secret %s lacks the label %s=%s; Cluster API does not see it without", s.Name, clusterv1.ClusterNameLabel, cluster)
	}
	if _, err := clientcmd.RESTConfigFromKubeConfig(s.Data[key]); err != nil {
		return fmt.Sprintf("entry %q of secret %s is no kubeconfig", key, s.Name) // the cause might show it
	}
	return ""
}

// Of returns the kubeconfig in a Secret, nil if there is none.
func Of(s *corev1.Secret) []byte { return s.Data[key] }
