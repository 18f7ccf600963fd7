// How the texts of chapter 1 are written, wherever the page writes them again.
export const PAST_TRAINED = 1888; // positions past the trained context
export const HOW = { temperature: 0.8, topP: 0.9 };
