package kubeconfig_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"nstance.dev/operator/credentials/kubeconfig"
)

func TestO8_AKubeconfigSaysWhereAndWho(t *testing.T) {
	text, err := kubeconfig.Render("c", kubeconfig.Endpoint{URL: "https://10.0.0.1:443", CA: []byte("authorities")}, "token")
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://10.0.0.1:443" || string(got.CAData) != "authorities" || got.BearerToken != "token" {
		t.Errorf("it leads to %v", got)
	}
}

func TestRetriesGrow(t *testing.T) {
	var got []time.Duration
	for failures := range 7 {
		got = append(got, kubeconfig.Retry(failures))
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{10 * s, 10 * s, 20 * s, 40 * s, 80 * s, 120 * s, 120 * s}, got); diff != "" {
		t.Error(diff)
	}
	if got := kubeconfig.Retry(1000); got != 2*time.Minute {
		t.Errorf("%v after 1000 failures", got)
	}
}

func TestWhatIsWrongWithAGivenKubeconfigIsSaid(t *testing.T) {
	text, err := kubeconfig.Render("c", kubeconfig.Endpoint{URL: "https://10.0.0.1:443"}, "secret-token")
	if err != nil {
		t.Fatal(err)
	}
	secret := func(label string, value []byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "c-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": label}},
			Data:       map[string][]byte{"value": value},
		}
	}
	tests := []struct {
		name   string
		secret *corev1.Secret
		want   string
	}{
		{"as it should be", secret("c", text), ""},
		{"missing", nil, `secret c-kubeconfig is missing; put a kubeconfig of the workload cluster into its entry "value"`},
		{"of another cluster", secret("d", text), "secret c-kubeconfig lacks the label cluster.x-k8s.io/cluster-name=c; Cluster API does not see it without"},
		{"something else", secret("c", []byte("secret-token: {")), `entry "value" of secret c-kubeconfig is no kubeconfig`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := kubeconfig.Problem("c", test.secret); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
