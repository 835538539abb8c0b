package kube

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// clusterAPINamespace is where a release of Cluster API is installed.
const clusterAPINamespace = "capi-system"

// ClusterAPIUser is as whom Cluster API runs: a ServiceAccount of its release.
const ClusterAPIUser = "system:serviceaccount:" + clusterAPINamespace + ":capi-manager"

// clusterAPI runs the core of Cluster API outside of the cluster.
func (c *Cluster) clusterAPI(Config) (*part, error) {
	release, err := clusterAPIRelease()
	if err != nil {
		return nil, err
	}
	gates, err := featureGates(release)
	if err != nil {
		return nil, err
	}
	ports := make([]int, 3)
	for i := range ports {
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	webhooks, health, diagnostics := ports[0], ports[1], ports[2]
	c.webhookURL = "https://" + address(webhooks)
	kubeconfig, err := c.componentUser(ClusterAPI, ClusterAPIUser,
		"system:serviceaccounts", "system:serviceaccounts:"+clusterAPINamespace)
	if err != nil {
		return nil, err
	}
	return &part{
		args: []string{
			"--kubeconfig=" + kubeconfig,
			"--leader-elect=false",
			fmt.Sprintf("--webhook-port=%d", webhooks),
			"--webhook-cert-dir=" + c.servingDir(),
			"--health-addr=" + address(health),
			"--diagnostics-address=" + address(diagnostics), "--insecure-diagnostics",
			gates,
		},
		env:     []string{"POD_NAMESPACE=" + clusterAPINamespace},
		healthy: c.answers("http://" + address(health) + "/readyz"),
	}, nil
}

// clusterAPIRelease reads what a release installs.
func clusterAPIRelease() ([]*unstructured.Unstructured, error) {
	path, err := tool("capi-core.yaml")
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objects, err := Objects(manifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return objects, nil
}

// installClusterAPI creates what a release installs, but for what runs and reaches its
// program in a cluster: here the API server calls the webhooks at their address.
func (c *Cluster) installClusterAPI(ctx context.Context) error {
	release, err := clusterAPIRelease()
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for _, object := range release {
		switch object.GetKind() {
		case "Deployment", "Service", "Certificate", "Issuer":
			continue
		}
		if err := PointWebhooks(object.Object, c.webhookURL, c.authority.pem); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		objects = append(objects, object)
	}
	return c.Apply(ctx, objects...)
}

// clusterAPIEntitled returns nil once Cluster API may do what its release grants it. All
// of it comes at once, in a role that the controller manager puts together.
func (c *Cluster) clusterAPIEntitled(ctx context.Context) error {
	client, err := authorizationclient.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	review, err := client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: ClusterAPIUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "cluster.x-k8s.io", Resource: "machinepools", Verb: "list",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !review.Status.Allowed {
		return errors.New("it may not list MachinePools yet")
	}
	return nil
}

// ClusterAPIDefinitions returns the CustomResourceDefinitions of a release for a cluster
// without its program: nobody converts one version into another, and no webhook is asked.
func ClusterAPIDefinitions() ([]*unstructured.Unstructured, error) {
	release, err := clusterAPIRelease()
	if err != nil {
		return nil, err
	}
	var definitions []*unstructured.Unstructured
	for _, object := range release {
		if !isCRD(object) {
			continue
		}
		if err := unstructured.SetNestedMap(object.Object, map[string]any{"strategy": "None"}, "spec", "conversion"); err != nil {
			return nil, err
		}
		definitions = append(definitions, object)
	}
	return definitions, nil
}

// PointWebhooks changes every clientConfig in an object (a webhook configuration, a
// CustomResourceDefinition with a conversion) that names a Service: it gets the Service's path at url
// instead, or where url is empty stays as it is, and authority, in PEM, to know the server by.
func PointWebhooks(object map[string]any, url string, authority []byte) error {
	for key, value := range object {
		switch value := value.(type) {
		case map[string]any:
			if key == "clientConfig" {
				if err := pointWebhook(value, url, authority); err != nil {
					return err
				}
				continue
			}
			if err := PointWebhooks(value, url, authority); err != nil {
				return err
			}
		case []any:
			for _, element := range value {
				inner, ok := element.(map[string]any)
				if !ok {
					continue
				}
				if err := PointWebhooks(inner, url, authority); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func pointWebhook(client map[string]any, url string, authority []byte) error {
	service, found, err := unstructured.NestedMap(client, "service")
	if err != nil || !found {
		return err
	}
	path, _, err := unstructured.NestedString(service, "path")
	if err != nil {
		return err
	}
	if url != "" {
		delete(client, "service")
		client["url"] = url + path
	}
	client["caBundle"] = base64.StdEncoding.EncodeToString(authority)
	return nil
}

// variable is how a release leaves a value to who installs it: ${NAME:=default}.
var variable = regexp.MustCompile(`\$\{\w+:=([^}]*)\}`)

// featureGates returns the flag by which a release enables features, with its defaults.
func featureGates(release []*unstructured.Unstructured) (string, error) {
	for _, object := range release {
		if object.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return "", err
		}
		for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--feature-gates=") {
				return variable.ReplaceAllString(arg, "$1"), nil
			}
		}
	}
	return "", errors.New("the release has no Deployment with --feature-gates")
}
