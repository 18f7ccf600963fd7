#!/usr/bin/env python3
"""Text models inside models of pictures or sound, without a row: each gives the same bytes as by itself, with tensors
named in either way, and tensors of other parts are left out by name."""

import json
import os

from common import check, in_work, main, random_weights, read, run, table, takes_long, write
from test_family_formats import cases_of, folder_tensors
from folders import export, write_folder

# Names of tensors: the words in place of `model.`, the place of the classifier, and further tensors.
OLD = 'language_model.model.', 'language_model.lm_head.', ('vision_tower.x.weight', 'multi_modal_projector.y.weight')
NEW = 'model.language_model.', 'lm_head.', ('model.vision_tower.x.weight', 'model.multi_modal_projector.y.weight')
TEXT = 'model.text_model.', 'lm_head.', ('model.vision_model.x.weight', 'model.connector.y.weight')
LLM = 'llm.model.', 'llm.lm_head.', ('vpm.x.weight', 'resampler.y.weight')
THINKER = 'thinker.model.', 'thinker.lm_head.', ('thinker.visual.x.weight', 'talker.model.embed.weight')
AUDIO = 'language_model.model.', 'language_model.lm_head.', ('audio_tower.x.weight', 'encoder.y.weight')
# Wrappers as they are published and as the library saves them: the architecture, the families that the text model may
# be of, where its config is, and how its tensors are named.
WRAPPERS = {
    'exaone4_5': ('Exaone4_5_ForConditionalGeneration', 'exaone4', 'text_config', (OLD, NEW)),
    'cohere2_vision': ('Cohere2VisionForConditionalGeneration', 'cohere2', 'text_config', (OLD, NEW)),
    'aya_vision': ('AyaVisionForConditionalGeneration', 'cohere2', 'text_config', (OLD, NEW)),
    'internvl': ('InternVLForConditionalGeneration', 'qwen2 qwen3', 'text_config', (OLD, NEW)),
    'internvl_chat': ('InternVLChatModel', 'qwen2 qwen3 llama', 'llm_config', (OLD,)),
    'llava': ('LlavaForConditionalGeneration', 'llama mistral', 'text_config', (OLD, NEW)),
    'llava_next': ('LlavaNextForConditionalGeneration', 'mistral llama', 'text_config', (OLD, NEW)),
    'llava_next_video': ('LlavaNextVideoForConditionalGeneration', 'llama', 'text_config', (OLD, NEW)),
    'llava_onevision': ('LlavaOnevisionForConditionalGeneration', 'qwen2', 'text_config', (OLD, NEW)),
    'vipllava': ('VipLlavaForConditionalGeneration', 'llama', 'text_config', (OLD, NEW)),
    'video_llava': ('VideoLlavaForConditionalGeneration', 'llama', 'text_config', (OLD, NEW)),
    'ovis2': ('Ovis2ForConditionalGeneration', 'qwen2', 'text_config', (NEW, LLM)),
    'fast_vlm': ('FastVlmForConditionalGeneration', 'qwen2', 'text_config', (NEW,)),
    'smolvlm': ('SmolVLMForConditionalGeneration', 'llama', 'text_config', (TEXT,)),
    'idefics2': ('Idefics2ForConditionalGeneration', 'mistral', 'text_config', (TEXT,)),
    'idefics3': ('Idefics3ForConditionalGeneration', 'llama', 'text_config', (TEXT,)),
    'granite4_vision': ('Granite4VisionForConditionalGeneration', 'granite', 'text_config', (NEW,)),
    'paligemma': ('PaliGemmaForConditionalGeneration', 'gemma gemma2', 'text_config', (OLD, NEW)),
    'lighton_ocr': ('LightOnOcrForConditionalGeneration', 'qwen3', 'text_config', (OLD, NEW)),
    'minicpmv4_6': ('MiniCPMV4_6ForConditionalGeneration', 'qwen3', 'text_config', (LLM, NEW)),
    'got_ocr2': ('GotOcr2ForConditionalGeneration', 'qwen2', 'text_config', (OLD, NEW)),
    'perception_lm': ('PerceptionLMForConditionalGeneration', 'llama', 'text_config', (NEW,)),
    'deepseek_vl': ('DeepseekVLForConditionalGeneration', 'llama', 'text_config', (NEW,)),
    'janus': ('JanusForConditionalGeneration', 'llama', 'text_config', (NEW,)),
    'kimi_vl': ('KimiVLForConditionalGeneration', 'deepseek_v3', 'text_config', (OLD,)),
    'voxtral': ('VoxtralForConditionalGeneration', 'llama', 'text_config', (AUDIO,)),
    'qwen2_audio': ('Qwen2AudioForConditionalGeneration', 'qwen2', 'text_config', (AUDIO,)),
    'granite_speech': ('GraniteSpeechForConditionalGeneration', 'granite', 'text_config', (AUDIO,)),
    'audioflamingo3': ('AudioFlamingo3ForConditionalGeneration', 'qwen2', 'text_config', (AUDIO,)),
    'qwen9_omni': ('Qwen9OmniForConditionalGeneration', 'qwen3', 'thinker_config', (THINKER,)),
    'newest_vl': ('NewestVLModel', 'olmo2 smollm3 gpt_oss qwen3_moe', 'language_config', (OLD, NEW)),
}


def wrapped(model_type, architecture, place, text):
    inside = {'model_type': 'thinker', 'text_config': text} if place == 'thinker_config' else text
    return {'model_type': model_type, 'architectures': [architecture], 'vision_config': {'hidden_size': 8},
            place: inside, 'tie_word_embeddings': text['tie_word_embeddings'], 'eos_token_id': text.get('eos_token_id')}


def hold(model_type, family, naming):
    """One wrapper with one family inside, named in one way."""
    architecture, _, place, _ = WRAPPERS[model_type]
    what = '%s with %s as %s' % (model_type, family, naming[0])
    case = cases_of(family)[0]
    weights = random_weights(case.c, 1)
    own = folder_tensors(case.facts, case.c, weights)
    settings = {'tie_word_embeddings': False, **case.settings}
    alone, model = in_work('alone.bin'), in_work('inside.bin')
    done = export(write_folder(in_work('alone'), settings, own), alone)
    if not check(done.returncode == 0, 'alone: ' + what, done.stderr):
        return
    text = {key: value for key, value in settings.items() if key != 'architectures'}
    start, head, others = naming
    tensors = {name.replace('model.', start, 1) if name.startswith('model.') else name.replace('lm_head.', head):
               tensor for name, tensor in own.items()}
    tensors.update({name: ([2, 2], [1.0] * 4) for name in others})
    folder = write_folder(in_work('inside'), wrapped(model_type, architecture, place, text), tensors)
    done = export(folder, model)
    if not check(done.returncode == 0, what, done.stderr):
        return
    check(read(model) == read(alone), 'the same bytes: ' + what)
    check('2 tensors for pictures or sound are left out' in done.stderr, 'what is left out: ' + what, done.stderr)
    shown = [run('--explain', '--rope-config', os.path.join(in_work(name), 'config.json'), '-n', 100).out
             for name in ('alone', 'inside')]
    check(shown[0] == shown[1] and shown[0], '--explain: ' + what, shown)


def test_wrappers():
    """One for each way of naming; make test-long has all."""
    first = {naming: (model_type, families.split()[0]) for model_type, (_, families, _, namings) in WRAPPERS.items()
             for naming in namings}
    for naming, (model_type, family) in first.items():
        hold(model_type, family, naming)


@takes_long
def test_all_wrappers():
    for model_type, (_, families, _, namings) in WRAPPERS.items():
        for family in families.split():
            for naming in namings:
                hold(model_type, family, naming)


def test_sizes():
    """Sizes missing in text_config are its class's: older libraries wrote only differing ones."""
    text = {'max_position_embeddings': 4096, 'rms_norm_eps': 1e-05, 'vocab_size': 32064}
    for family, architecture, head in (('llama', 'LlavaForConditionalGeneration', 128),
                                       ('mistral', 'LlavaNextForConditionalGeneration', 128),
                                       ('gemma', 'PaliGemmaForConditionalGeneration', 256)):
        whole = {'model_type': 'llava', 'architectures': [architecture], 'text_config': dict(text, model_type=family)}
        path = write(in_work('config.json'), json.dumps(whole))
        settings = table(run('--explain', '--rope-config', path, '-n', 100).out)[0]
        check(settings.get('head_dim') == str(head), 'the head of ' + family, settings)
        os.makedirs(in_work(family))
        write(os.path.join(in_work(family), 'config.json'), json.dumps(whole))
        done = export(in_work(family), in_work('none.bin'))
        check('holds no weights' in done.stderr, 'the sizes of ' + family, done.stderr)


def test_another_model():
    """The config of a text model alone, and one without a text model inside."""
    path = write(in_work('config.json'), json.dumps({'model_type': 'newest_vl', 'text_config': {'model_type': 'clip'}}))
    done = run('--explain', '--rope-config', path)
    check(done.status == 2 and 'model_type cannot be used' in done.err and done.err.count('\n') == 1, 'no text', done)


if __name__ == '__main__':
    main(globals())
