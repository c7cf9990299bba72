extension ServerAPIRefusal {
    /// What Apple does not accept about a change; nil for other errors.
    ///
    /// - Source: Apple, "Error codes".
    var cause: String? {
        switch code {
        case 4_000_006: "the transaction id is not valid"
        case 4_000_008: "the original transaction id is not valid"
        case 4_000_009: "the number of days is not valid: expected 1 to 90"
        case 4_000_010: "the reason code is not valid: expected 0 to 3"
        case 4_000_011: "the request identifier is not valid"
        case 4_000_023: "the product id is not valid"
        case 4_000_027: "the list of storefronts is empty"
        case 4_000_028: "a storefront is not valid: expected three-letter country codes"
        case 4_000_048: "the id is one of an Apple Account: expected an original transaction id"
        case 4_000_183: "the account token is not valid: expected a UUID"
        case 4_000_185: "the purchase is shared by a family member: expected that of the purchaser"
        case 4_000_187: "the id is not an original transaction id"
        case 4_000_227: "the purchase is assigned to the user by an organization"
        case 4_030_004: "the subscription is in a state that cannot be extended: expected an active one"
        case 4_030_005: "the subscription was extended twice in the last 365 days"
        case 4_030_007: "the subscription is shared by a family member: expected that of the purchaser"
        case 4_030_028: "the subscription is assigned to the user by an organization"
        case 4_040_005: "the App Store does not know the original transaction id"
        case 4_040_009: "the App Store knows no extension of the product with this request identifier"
        default: nil
        }
    }
}
