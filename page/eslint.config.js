// What ESLint holds the page and its tests to: nothing unused or unknown, no shadowed names, no == and no var.
import js from '@eslint/js';
import globals from 'globals';

const RULES = {
    ...js.configs.recommended.rules,
    'no-shadow': 'error',
    'no-var': 'error',
    'prefer-const': ['error', { destructuring: 'all' }],
    eqeqeq: 'error',
    'no-implicit-globals': 'error',
    'no-unused-vars': ['error', { args: 'after-used' }],
    'no-use-before-define': ['error', { functions: false, variables: false, classes: false }],
    'no-else-return': 'error',
    'object-shorthand': 'error',
    'max-depth': ['error', 5],
};

export default [
    {
        files: ['page/src/**/*.js'],
        rules: RULES,
        languageOptions: { globals: globals.browser },
    },
    { files: ['page/src/worker.js'], languageOptions: { globals: globals.worker } },
    { files: ['page/*.mjs', 'page/*.js'], rules: RULES, languageOptions: { globals: globals.node } },
    // what stands in evaluate() runs in the browser
    {
        files: ['tests/page/*.mjs'],
        rules: { ...RULES, 'no-shadow': 'off' },
        languageOptions: { globals: { ...globals.node, ...globals.browser, rope: 'readonly' } },
    },
];
