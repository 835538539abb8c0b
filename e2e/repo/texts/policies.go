package texts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// inPolicies reads the messages of a file of ValidatingAdmissionPolicies. The expression of a
// message is a text too: its words are those that people read.
func inPolicies(path string) ([]Text, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r reader
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		switch err := docs.Decode(&policy); {
		case errors.Is(err, io.EOF):
			return r.found, nil
		case err != nil:
			return nil, fmt.Errorf("read policies %s: %w", path, err)
		}
		for _, rule := range policy.Spec.Validations {
			r.add(Conditions, rule.Message)
			r.add(Conditions, rule.MessageExpression)
		}
	}
}
