package kubeconfig_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nstance.dev/operator/credentials/kubeconfig"
)

// given returns a kubeconfig as an administrator gives it.
func given(t *testing.T, server *httptest.Server, token string) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text, err := kubeconfig.Render("c", kubeconfig.Endpoint{URL: server.URL, CA: ca}, token)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestANewKubeconfigCountsForClientsThatAreThere(t *testing.T) {
	accepted := "first"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accepted {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`))
	}))
	defer server.Close()
	transport := &kubeconfig.Transport{}
	config := kubeconfig.ClientConfig(server.URL, transport, &rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func() (*corev1.Node, error) {
		return clients.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	}
	if _, err := get(); !errors.Is(err, kubeconfig.ErrNoKubeconfig) {
		t.Errorf("before there is one: %v", err)
	}
	if err := transport.Use(given(t, server, "first")); err != nil {
		t.Fatal(err)
	}
	if n, err := get(); err != nil || n.Name != "n" {
		t.Errorf("%v", err)
	}
	if err := kubeconfig.Reachable(config); err != nil {
		t.Errorf("%v", err)
	}
	accepted = "second"
	if _, err := get(); err == nil {
		t.Error("the old token is still accepted")
	}
	if err := kubeconfig.Reachable(config); err == nil {
		t.Error("it is reachable without credentials")
	}
	if err := transport.Use(given(t, server, "second")); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err != nil {
		t.Errorf("with the new one: %v", err)
	}
	err = transport.Use([]byte("token: secret"))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("rubbish: %v", err)
	}
	if _, err := get(); err != nil {
		t.Errorf("after rubbish: %v", err)
	}
}
