package gsm

import (
	"context"
	"fmt"
	"regexp"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"

	"nstance.dev/server/secrets"
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)

// NewKeySource returns the source of the encryption keys in the latest version of
// a secret, by its id in the project.
func NewKeySource(api *secretmanager.Client, project, id string) (secrets.KeySource, error) {
	if !projectPattern.MatchString(project) {
		return nil, fmt.Errorf("%w: %w %.64q", secrets.ErrKey, ErrProject, project)
	}
	if !idPattern.MatchString(id) {
		return nil, fmt.Errorf("%w: %.64q is not the id of a secret", secrets.ErrKey, id)
	}
	resource := "projects/" + project + "/secrets/" + id
	return secrets.KeysFrom(resource, func(ctx context.Context) (secrets.Secret, error) {
		return latest(ctx, api, resource)
	}), nil
}
