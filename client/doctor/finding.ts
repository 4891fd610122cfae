/** Something that the ledger lacks or that does not agree with another record. */
export interface Finding {
  rolloutId: string;
  what: string;
  /** What `--repair` did about it; null where nothing was done. */
  repaired: string | null;
}
