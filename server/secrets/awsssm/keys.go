package awsssm

import (
	"context"
	"fmt"

	"nstance.dev/server/secrets"
)

// NewKeySource returns the source of the encryption keys in a parameter, by its
// full name or ARN.
func NewKeySource(api API, parameter string) (secrets.KeySource, error) {
	if parameter == "" {
		return nil, fmt.Errorf("%w: the name of the parameter is missing", secrets.ErrKey)
	}
	return secrets.KeysFrom("parameter "+parameter, func(ctx context.Context) (secrets.Secret, error) {
		return get(ctx, api, parameter)
	}), nil
}
