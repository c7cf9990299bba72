import Encoding
import Subscriptions

// Properties of every event that can be decoded from a body.

func checkEvent(_ event: Event) throws(BrokenPromise) {
    try checkTexts(event)
    guard let document = try? JSONDocument(jsonObject(event.writeMembers)) else {
        throw BrokenPromise(description: "the JSON of an event can be parsed")
    }
    guard let facts = try? Facts(json: document.root) else {
        throw BrokenPromise(description: "the facts of an event can be read from its JSON")
    }
    try promise(facts == event.facts, "facts are equal after they are written and read")
    // Equal strings may differ in their bytes, and databases and digests compare bytes.
    try promise(
        jsonObject(facts.writeMembers) == jsonObject(event.facts.writeMembers),
        "facts have the same bytes after they are written and read")
    // Checking all subscriptions of a body with a thousand would take a second and find nothing more.
    for id in facts.bySubscription.keys.sorted().prefix(8) { try checkSubscription(id, of: event) }
}

/// PostgreSQL accepts no NUL in text.
private func checkTexts(_ event: Event) throws(BrokenPromise) {
    var texts = Texts(found: [event.app, event.type, event.subtype, event.notificationUUID])
    for row in event.transactions {
        texts.found += [row.transactionId, row.originalTransactionId]
        row.visitFields(with: &texts)
    }
    for renewal in event.renewals {
        texts.found.append(renewal.originalTransactionId)
        renewal.visitFields(with: &texts)
    }
    texts.found += event.accountDeletions
    texts.found += event.defects.flatMap { [$0.path, $0.problem] }
    try promise(!texts.found.contains { $0?.utf8.contains(0) == true }, "no string of an event contains a NUL")
}

/// Collects the string fields.
private struct Texts: FieldVisitor {
    var found: [String?]

    mutating func visit(_ field: Field, _ source: String?, _ target: inout String?) {
        found.append(source)
    }

    mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
        found += source
    }

    mutating func visit<Value>(_ field: Field, _ source: Value?, _ target: inout Value?) {}
    mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {}
}

// MARK: - Folding

private func checkSubscription(_ id: String, of event: Event) throws(BrokenPromise) {
    let facts = event.facts
    let reversed = Facts(
        transactions: facts.transactions.reversed(), renewals: facts.renewals.reversed(),
        accountDeletions: facts.accountDeletions.reversed())
    let once = fold([facts], id, event)
    try promise(fold([facts, facts], id, event) == once, "folding twice equals folding once")

    let stored = canonicalText(once)
    try promise(canonicalText(fold([reversed], id, event)) == stored, "the order of the facts does not matter")
    guard let document = try? JSONDocument(stored),
        let read = try? SubscriptionFacts(originalTransactionId: id, json: document.root)
    else { throw BrokenPromise(description: "stored facts can be read") }
    try promise(read == once && canonicalText(read) == stored, "stored facts are unchanged when they are read")

    let subscription = Subscription(once)
    for instant in [Instant.earliest, receivedAt, .latest] {
        let answer = jsonObject { subscription.writeMembers(at: instant, to: &$0) }
        try promise((try? JSONDocument(answer)) != nil, "the JSON of a subscription can be parsed")
    }
}

private func fold(_ deliveries: [Facts], _ id: String, _ event: Event) -> SubscriptionFacts {
    var result = SubscriptionFacts(originalTransactionId: id)
    for facts in deliveries { result.fold(facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: 1) }
    return result
}

private func canonicalText(_ facts: SubscriptionFacts) -> [UInt8] {
    var writer = JSONWriter()
    facts.write(to: &writer)
    return writer.bytes
}
