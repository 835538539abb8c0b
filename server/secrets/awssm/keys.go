package awssm

import (
	"context"
	"fmt"

	"nstance.dev/server/secrets"
)

// NewKeySource returns the source of the encryption keys in a secret of the
// manager, by its full name or ARN.
func NewKeySource(api API, id string) (secrets.KeySource, error) {
	if id == "" {
		return nil, fmt.Errorf("%w: the name of the secret is missing", secrets.ErrKey)
	}
	return secrets.KeysFrom("secret "+id, func(ctx context.Context) (secrets.Secret, error) {
		return get(ctx, api, id)
	}), nil
}
