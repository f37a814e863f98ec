package main

import (
	"fmt"
	"reflect"
	"strings"
)

// expectations keeps the first that did not hold, so that a check can be read without a branch per request.
type expectations struct {
	err error
}

// equal gives a function that takes a result as the library gives it: a value and an error.
func (e *expectations) equal(what string, expected any) func(got any, err error) {
	return func(got any, err error) {
		if err != nil {
			e.holds(false, "%s: %v", what, err)
			return
		}
		e.holds(reflect.DeepEqual(got, expected), "%s gives %#v, not %#v", what, got, expected)
	}
}

func (e *expectations) noError(what string, err error) {
	e.holds(err == nil, "%s: %v", what, err)
}

// fails wants an error whose text has `part` in it.
func (e *expectations) fails(what, part string, err error) {
	e.holds(err != nil && strings.Contains(err.Error(), part), "%s fails with %v, not with %q", what, err, part)
}

func (e *expectations) holds(holds bool, format string, args ...any) {
	if !holds && e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}
